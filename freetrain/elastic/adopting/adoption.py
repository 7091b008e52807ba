"""An adopted script on its way: set-up, rehearsal, training."""

from __future__ import annotations

import contextlib
import itertools
import logging
import math
import os
import sys
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch.utils.data import DataLoader

from freetrain.elastic.adopting.adopted_loop import AdoptedLoop
from freetrain.elastic.adopting.counts import ScriptCounts
from freetrain.elastic.adopting.samplers import WholeOrder, divided_by, epoch_set, part_of
from freetrain.elastic.errors import EVICTED_STATUS, Departed, NotAdoptedError
from freetrain.elastic.membership.identity import MAIN_VARIABLE
from freetrain.elastic.on_disk.directory import TrainerDirectory, trainer_from_environment
from freetrain.elastic.training.state import Beside, Stateful, parameters_in
from freetrain.errors import InputError

log = logging.getLogger(__name__)

Iterate = Callable[[DataLoader[Any]], Iterator[Any]]
_WARN_WAITING_AFTER_S = 30.0


class Adoption:
    """One adopted script."""

    def __init__(self) -> None:
        self.models: list[torch.nn.Module] = []  # that it wrapped in DistributedDataParallel
        self.optimizers: list[torch.optim.Optimizer] = []  # that it made
        self.carried: list[Stateful] = []  # schedules, gradient scalers, modules beside the models
        self.is_rehearsing = True  # its steps change nothing, as it is not where the training is
        self._loop: AdoptedLoop | None = None
        self._loader: DataLoader[Any] | None = None
        self._modules: list[weakref.ref[torch.nn.Module]] = []  # that it made or copied before its first batch
        self._counts = ScriptCounts()
        self._before: Beside | None = None
        self._is_in_batch = self._has_sums = False
        self._has_stepped = False
        self._loops = 0
        self._has_ended = False
        self._knows_of_sums = self._knows_of_parts = False
        self._knows_of_gradients = False

    # -- what the script does

    def note_optimizer(self, optimizer: torch.optim.Optimizer) -> None:
        """Note an optimizer that the script has made."""
        optimizer.register_step_pre_hook(self.before_step)
        self.optimizers.append(optimizer)

    def note_carried(self, item: Stateful) -> None:
        """Note an item that the script has made, once: some call the constructors of several base classes."""
        if all(item is not other for other in self.carried):
            self.carried.append(item)

    def note_module(self, module: torch.nn.Module) -> None:
        """Note a module that the script has made, or a copy, until the first batch is taken."""
        if self._before is None:
            self._modules.append(weakref.ref(module))

    def iterate(self, loader: DataLoader[Any], plain: Iterate) -> Iterator[Any]:
        """The batches of a loop over a loader, which torch alone would iterate over as ``plain`` does."""
        if self.is_rehearsing:
            rehearses = divided_by(loader) is not None or self._loader is not None
            return self._rehearse(loader, plain) if rehearses else plain(loader)
        if loader is self._loader:
            return self._train(loader)
        if self._loop is not None:
            loader = part_of(loader, self._loop.rank, self._loop.world_size)
        return plain(loader)

    def before_step(self, optimizer: torch.optim.Optimizer, *_: object) -> None:
        """The hook before each step of an optimizer: in a rehearsal it changes nothing."""
        if self.is_rehearsing:
            # Some step once before there is any gradient, to please a schedule.
            has_gradients = any(weight.grad is not None for weight in parameters_in(optimizer))
            if has_gradients and not self._is_in_batch and self._loader is None:
                raise NotAdoptedError("an optimizer steps outside a loop over a loader with a DistributedSampler")
            self._has_stepped = True
            # Optimizers leave parameters without gradient alone.
            optimizer.zero_grad(set_to_none=True)
        elif self._loop is not None and not self._loop.is_in_step:
            raise NotAdoptedError("an optimizer steps outside a loop over the loader with which training began")

    def before_clipping(self, parameters: Sequence[torch.Tensor]) -> None:
        """Sum gradients before they are clipped, so that sums are clipped and not a rank's own gradients."""
        self.note_sums()
        if not self.is_rehearsing and self._loop is not None:
            self._loop.sum_gradients_of(parameters)

    def note_sums(self, _: object = None) -> None:
        """Note that gradients are sums up to the batch's end; the training's scalers make them so, too."""
        self._has_sums = True

    def before_exchange(self, name: str, tensors: Sequence[torch.Tensor]) -> None:
        """Refuse losses that take other ranks' samples: over other numbers of ranks these are others."""
        is_step = self._is_in_batch and not self._has_stepped and any(model.training for model in self.models)
        is_sum = name in ("all_reduce", "reduce")
        exchanges = [tensor for tensor in tensors if tensor.requires_grad or (not is_sum and tensor.numel() > 1)]
        if is_step and (exchanges or is_called_by("torch.distributed.nn.functional")):
            raise NotAdoptedError(f"it calls {name} to compute its loss from other ranks' samples, too")

    def before_sum(self) -> None:
        """Say once that the script's own sums are over fewer or more ranks, or samples, than it may believe."""
        loop = self._loop
        if self.is_rehearsing or loop is None:
            return
        ranks = int(os.environ["WORLD_SIZE"])
        if not self._knows_of_sums and loop.world_size != ranks:
            self._knows_of_sums = True
            log.warning(
                "the script sums over the %d workers that there are now, not over %d ranks: a mean has to be "
                "divided by dist.get_world_size(), not by a world size that the script keeps",
                loop.world_size,
                ranks,
            )
        if not self._knows_of_parts and loop.is_before_update and loop.have_unequal_parts:
            self._knows_of_parts = True
            log.warning(
                "the script sums over %d workers whose parts of a batch differ by a sample: a mean that it "
                "divides by their number, or by that of this worker's own samples, is off by as much",
                loop.world_size,
            )

    def _note_read(self) -> None:
        """Say once that the script looks at gradients that are not summed yet."""
        if not self._knows_of_gradients and not self._has_sums:
            self._knows_of_gradients = True
            log.warning(
                "the script looks at gradients before they are clipped, unscaled or applied by torch: they are "
                "this worker's own, and not the mean of all ranks"
            )

    @property
    def has_joined(self) -> bool:
        """Whether this worker is one of those that train."""
        return self._loop is not None

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
        steps_after = list[int]()
        self._counts.begin_rehearsal()
        for taken, batch in enumerate(plain(loader), 1):
            if self._before is None:
                self.carried += modules_beside(self.models, [made() for made in self._modules])
                self._before = Beside(self.models, self.optimizers, self.carried)
            self._has_stepped = False
            with self._in_batch():
                yield batch
            if self._has_stepped:
                steps_after.append(taken)
            if is_evaluation or self._shows_form(steps_after):
                break
        # After the loop, so that the loader's worker processes have ended.
        if not steps_after:
            return
        self._counts.end_rehearsal()
        if self._arrives(loader) and self._loop is not None:
            self._counts.put_back()
            yield from self._loop.batches

    def _shows_form(self, steps_after: Sequence[int]) -> bool:
        """Whether the script's steps show how it trains, each after so many batches of its loop.

        Where it has taken several before the first step, the second one shows whether they belong to that step.
        """
        if self._loader is None and steps_after and steps_after[0] > 1:
            if len(steps_after) > 1 and steps_after[1] < 2 * steps_after[0]:
                raise NotAdoptedError("it takes batches ahead of its steps")
            return len(steps_after) > 1
        return bool(steps_after)

    @contextlib.contextmanager
    def _in_batch(self) -> Iterator[None]:
        """A context for the script's work on a batch of its rehearsal: notes reads of gradients."""
        self._is_in_batch, self._has_sums = True, False
        try:
            with noticing_reads_of_gradients(self._note_read):
                yield
        finally:
            self._is_in_batch = False

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
            root = trainer_from_environment()
            epoch_of_others = TrainerDirectory.open(root).epoch() if root is not None else 0
            if epoch < epoch_of_others:
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
        loop = AdoptedLoop(self.models, self.optimizers, loader, self.carried, self._counts)
        # By its home: torch.distributed has the replacement, which would end the adoption.
        torch.distributed.distributed_c10d.destroy_process_group()
        await_main()
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
        yield from self._loop.batches

    def _epoch_of_script(self, loader: DataLoader[Any]) -> int:
        """The script's epoch, as set with ``set_epoch``; without, the number of loops over the loader so far."""
        epoch = epoch_set(divided_by(loader))
        return self._loops if epoch is None else epoch


@contextlib.contextmanager
def noticing_reads_of_gradients(note: Callable[[], None]) -> Iterator[None]:
    """Let ``note`` know where the script itself, and not torch, reads a gradient that is there."""
    # A script that keeps one loop over a loader open while it begins another is noticed by the first.
    if "grad" in vars(torch.Tensor):
        yield
        return
    # Torch defines it in C, in the base class, so that Python sees a replacement first.
    own: Any = torch.Tensor.grad

    def read(tensor: torch.Tensor) -> torch.Tensor | None:
        gradient: torch.Tensor | None = own.__get__(tensor)
        reader = str(sys._getframe(1).f_globals.get("__name__"))
        if gradient is not None and reader.partition(".")[0] not in ("torch", "freetrain"):
            note()
        return gradient

    torch.Tensor.grad = property(read, own.__set__, own.__delete__)  # type: ignore[assignment]
    try:
        yield
    finally:
        del torch.Tensor.grad


def is_called_by(module: str) -> bool:
    """Whether this Python module is among the callers."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__") != module:
        frame = frame.f_back
    return frame.f_globals.get("__name__") == module


class ModuleBeside:
    """A module beside those that are trained, such as an average by hand or a loss with buffers; a Stateful.

    Args:
        trained: ids of tensors that it shares with those, which are left out.
    """

    def __init__(self, module: torch.nn.Module, trained: set[int]) -> None:
        self._module, self._trained = module, trained

    def state_dict(self) -> dict[str, Any]:
        """The module's parameters and buffers, live, without those of the models."""
        tensors = self._module.state_dict(keep_vars=True)
        return {
            name: tensor.detach()
            for name, tensor in tensors.items()
            if isinstance(tensor, torch.Tensor) and id(tensor) not in self._trained
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take these values."""
        self._module.load_state_dict(state, strict=False)


def modules_beside(
    models: Iterable[torch.nn.Module], made: Sequence[torch.nn.Module | None]
) -> list[ModuleBeside]:
    """Modules that hold tensors beside the models: those of ``made`` that no other of them contains."""
    trained = {id(tensor) for model in models for tensor in itertools.chain(model.parameters(), model.buffers())}
    there = dict.fromkeys(module for module in made if module is not None)
    inner = {child for module in there for child in module.modules() if child is not module}
    beside = (ModuleBeside(module, trained) for module in there if module not in inner)
    return [module for module in beside if module.state_dict()]


def await_main() -> None:
    """Let the script that is rank 0 join first: all get its model, as from DistributedDataParallel."""
    root = trainer_from_environment()
    if root is None or os.environ.get(MAIN_VARIABLE):
        return
    directory, warn_s = TrainerDirectory.open(root), time.monotonic() + _WARN_WAITING_AFTER_S
    while directory.awaits_main():
        if directory.has_lost_main():
            raise Departed("the script that was rank 0 was lost before training began", EVICTED_STATUS)
        if time.monotonic() > warn_s:
            warn_s = math.inf
            log.warning("waiting for the script that is rank 0, with whose model the training begins")
        time.sleep(0.1)


def check_form(
    loader: DataLoader[Any], models: list[torch.nn.Module], optimizers: list[torch.optim.Optimizer]
) -> None:
    """Raises NotAdoptedError if the script trains in another way than adopted ones may."""
    sampler = divided_by(loader)
    if sampler is None:
        raise NotAdoptedError("its training's loader has no sampler that divides batches of one size among ranks")
    if not WholeOrder(sampler).is_known:
        raise NotAdoptedError("its training's sampler has another order each time, or one that no rank changes")
    wrapped = {id(parameter) for model in models for parameter in model.parameters()}
    trained = {id(parameter) for parameter in parameters_in(*optimizers)}
    if not trained <= wrapped:
        raise NotAdoptedError("its optimizers step parameters of models outside DistributedDataParallel")
