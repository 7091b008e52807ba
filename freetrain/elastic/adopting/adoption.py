"""An adopted script on its way: set-up, rehearsal, training."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch.utils.data import DataLoader, DistributedSampler

from freetrain.elastic.adopting.adopted_loop import AdoptedLoop, Beside, divide, follows_epochs
from freetrain.elastic.errors import NotAdoptedError
from freetrain.elastic.on_disk.directory import TrainerDirectory, trainer_from_environment
from freetrain.elastic.training.state import Stateful, parameters_in
from freetrain.errors import InputError

log = logging.getLogger(__name__)

Iterate = Callable[[DataLoader[Any]], Iterator[Any]]


class Adoption:
    """One adopted script.

    Attributes:
        models: that it wrapped in DistributedDataParallel.
        optimizers: that it made.
        carried: schedules, gradient scalers and averaged models that it made.
        number: of the batch that it has taken last, in its epoch.
        is_rehearsing: whether its steps change nothing, as it is not where the training is.
    """

    def __init__(self) -> None:
        self.models: list[torch.nn.Module] = []
        self.optimizers: list[torch.optim.Optimizer] = []
        self.carried: list[Stateful] = []
        self.number = 0
        self.is_rehearsing = True
        self._loop: AdoptedLoop | None = None
        self._loader: DataLoader[Any] | None = None
        self._before: Beside | None = None
        self._has_stepped = False
        self._loops = 0
        self._has_ended = False
        self._knows_of_sums = False

    # -- what the script does

    def iterate(self, loader: DataLoader[Any], plain: Iterate) -> Iterator[Any]:
        """The batches of a loop over a loader, which torch alone would iterate over as ``plain`` does."""
        sampler: Any = loader.sampler
        is_divided = isinstance(sampler, DistributedSampler)
        if self.is_rehearsing:
            return self._rehearse(loader, plain) if is_divided or self._loader is not None else plain(loader)
        if loader is self._loader:
            return self._train(loader)
        if not is_divided or self._loop is None:
            return plain(loader)
        divide(sampler, self._loop.rank, self._loop.world_size)
        return self._counted(plain(loader))

    def before_step(self, optimizer: torch.optim.Optimizer, *_: object) -> None:
        """The hook before each step of an optimizer: in a rehearsal it changes nothing."""
        if self.is_rehearsing:
            self._has_stepped = True
            # Optimizers leave parameters without gradient alone.
            optimizer.zero_grad(set_to_none=True)
        elif self._loop is not None and not self._loop.is_in_step:
            raise InputError(
                "an optimizer steps outside the loop over the training's loader.",
                "Run the script with --restart in place of --adopt.",
            )

    def before_clipping(self, parameters: Sequence[torch.Tensor]) -> None:
        """Sums are clipped, and not a rank's own gradients."""
        if not self.is_rehearsing and self._loop is not None:
            self._loop.sum_gradients_of(parameters)

    def before_sum(self) -> None:
        """Say once that the script's own sums are over fewer or more ranks than it was started for."""
        ranks, loop = int(os.environ["WORLD_SIZE"]), self._loop
        if self.is_rehearsing or loop is None or self._knows_of_sums or loop.world_size == ranks:
            return
        self._knows_of_sums = True
        log.warning(
            "the script sums over the %d workers that there are now, not over %d ranks: a mean has to be divided "
            "by dist.get_world_size(), not by a world size that the script keeps",
            loop.world_size,
            ranks,
        )

    def end(self) -> None:
        """The script has come to its end, or takes leave of the other ranks."""
        if self._has_ended:
            return
        self._has_ended = True
        if self._loop is not None:
            # It was entered when this worker joined: only its end is left.
            with contextlib.ExitStack() as stack:
                stack.push(self._loop)
                self._loop.finish()
        elif self._loader is None:
            raise NotAdoptedError("it ended without a step over a loader with a DistributedSampler")
        else:
            raise InputError(
                f"the script came to its end in epoch {self._loops}, before the epoch in which the others are.",
                "All workers have to be started with the same arguments.",
            )

    def leave(self, error: BaseException) -> None:
        """The script ends with this error."""
        if self._loop is not None and not self._has_ended:
            self._has_ended = True
            self._loop.__exit__(type(error), error, error.__traceback__)

    # -- rehearsal

    def _rehearse(self, loader: DataLoader[Any], plain: Iterate) -> Iterator[Any]:
        """Batches until the script steps with one; then those of the training, if the script is where that is."""
        is_evaluation = self._loader is not None and loader is not self._loader
        self._has_stepped = False
        for batch in self._counted(plain(loader)):
            if self._before is None:
                self._before = Beside(self.models, self.optimizers, self.carried)
            self._has_stepped = False
            yield batch
            if self._has_stepped or is_evaluation:
                break
        # After the loop, so that the loader's worker processes have ended.
        if self._has_stepped and self._arrives(loader) and self._loop is not None:
            yield from self._batches(self._loop)

    def _arrives(self, loader: DataLoader[Any]) -> bool:
        """Whether the script is in the training's epoch: then its steps count from here on."""
        epoch = self._epoch_of_script(loader)
        self._loops += 1
        if self._loader is None:
            check_form(loader, self.models, self.optimizers)
            self._loader = loader
        if loader is not self._loader:
            raise NotAdoptedError("it trains with several loaders")
        if self._loop is None:
            # Joins only in the epoch of the others: nobody waits while it rehearses the ones before.
            if epoch < epoch_of_others():
                return False
            self._loop = self._join(loader, epoch)
        if epoch < self._loop.epoch:
            return False
        if epoch > self._loop.epoch:
            raise InputError(
                f"the script begins with epoch {epoch}, and the training is in epoch {self._loop.epoch}.",
                "Its own snapshot is newer than the trainer's checkpoints: remove the older ones of the two.",
            )
        self._put_back()
        self.is_rehearsing = False
        return True

    def _join(self, loader: DataLoader[Any], epoch: int) -> AdoptedLoop:
        self._put_back()
        loop = AdoptedLoop(self.models, self.optimizers, loader, self.carried)
        # By its home: torch.distributed has the replacement, which would end the adoption.
        torch.distributed.distributed_c10d.destroy_process_group()
        # A newcomer that is fed steps its optimizers while it joins.
        self.is_rehearsing = False
        loop.enter(epoch)
        self.is_rehearsing = True
        if epoch < loop.epoch:
            log.warning(
                "the script runs once more through epochs %d to %d, which are trained: what it prints and writes "
                "of these now does not count",
                epoch,
                loop.epoch - 1,
            )
        # What is rehearsed from here on is put back to the state of the others.
        self._before = Beside(self.models, self.optimizers, self.carried)
        return loop

    def _put_back(self) -> None:
        if self._before is not None:
            self._before.put_back()

    # -- training

    def _train(self, loader: DataLoader[Any]) -> Iterator[Any]:
        assert self._loop is not None
        self._loop.next_epoch(self._epoch_of_script(loader))
        self._loops += 1
        yield from self._batches(self._loop)

    def _batches(self, loop: AdoptedLoop) -> Iterator[Any]:
        for number, batch in loop.batches.numbered():
            self.number = number
            yield batch

    def _counted(self, batches: Iterator[Any]) -> Iterator[Any]:
        for self.number, batch in enumerate(batches):
            yield batch

    def _epoch_of_script(self, loader: DataLoader[Any]) -> int:
        """As the script says with ``set_epoch``; without, its loops over the loader are counted."""
        sampler: Any = loader.sampler
        return int(sampler.epoch) if follows_epochs(sampler) else self._loops


def epoch_of_others() -> int:
    """The epoch in which the others train, or a bit before; 0 where nobody trains."""
    root = trainer_from_environment()
    return TrainerDirectory.open(root).epoch() if root is not None else 0


def check_form(
    loader: DataLoader[Any], models: list[torch.nn.Module], optimizers: list[torch.optim.Optimizer]
) -> None:
    """Raises NotAdoptedError if the script trains in another way than adopted ones may."""
    sampler = loader.sampler
    if not isinstance(sampler, DistributedSampler):
        raise NotAdoptedError("its training's loader has no DistributedSampler")
    if loader.batch_size is None or type(sampler).__iter__ is not DistributedSampler.__iter__:
        raise NotAdoptedError("its training's loader makes batches, or an order, of its own")
    wrapped = {id(parameter) for model in models for parameter in model.parameters()}
    trained = {id(parameter) for optimizer in optimizers for parameter in parameters_in(optimizer)}
    if not trained <= wrapped:
        raise NotAdoptedError("its optimizers step parameters of models outside DistributedDataParallel")
