"""An elastic training as its script sees it: batches, optimizers whose gradients are added up, changing worlds."""

from __future__ import annotations

import linecache
import logging
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import torch

from freetrain.elastic.data.batching import FixedBatch, Sampler, ScaledBatch, StepBatches
from freetrain.elastic.data.orders import BatchOrder
from freetrain.elastic.data.streams import Streaming
from freetrain.elastic.errors import LostRankError, as_exit, plain_errors
from freetrain.elastic.script.adascale import AdaScale
from freetrain.elastic.script.gradients import parameters_of
from freetrain.elastic.script.hooks import Resize, StepResult
from freetrain.elastic.script.local_steps import LocalSteps, Rounds
from freetrain.elastic.script.sharding import check_sharding
from freetrain.elastic.script.updates import Updates
from freetrain.elastic.training.records import RecordOptions
from freetrain.elastic.training.state import Stateful, TrainingState
from freetrain.elastic.training.tensors import is_sharded
from freetrain.elastic.training.training import ElasticTraining
from freetrain.elastic.worlds.device import device_of
from freetrain.elastic.worlds.exchange import decode_all, encode, gather_announced
from freetrain.elastic.worlds.replica import lost_replica
from freetrain.elastic.worlds.world import World
from freetrain.errors import FreetrainError, InputError

log = logging.getLogger(__name__)
_ZIP = re.compile(r"\bzip(_longest)?\(")


class Loop:
    """An elastic training; use it as a context, with loops over :meth:`epochs` and :attr:`batches`.

    The script computes losses, calls ``loss.backward()`` and steps its optimizers, each of which adds up its
    gradients over the ranks first. A step ends where the script takes the first batch after an optimizer's step.

    Args:
        model: on its device already, or several of them.
        optimizer: of their parameters, or several of them.
        data: a DataLoader, or several, whose batches then come together; a data set with length and items or one
            that can only be iterated over; or the number of samples (batches are then tensors of ids).
        batch: samples per batch, over all ranks; the DataLoader's ``batch_size`` if it is not given.
        epochs: passes over the data.
        seed: of the order of the samples.
        shuffle: False keeps the data set's order; a DataLoader has its own setting.
        drop_last: leave out the last batch of an epoch if it is not a whole one; a DataLoader has its own setting.
        also: more to carry along by name: anything with ``state_dict`` and ``load_state_dict``.
        local: let each rank make several steps by itself before the ranks meet: :class:`LocalSteps`; a step of the
            training is then a round of these.
        scaling: lets learning rates follow steps that grow with the world: :class:`AdaScale`.
        overlap: sum gradients during the backward pass: each is followed by a step of the optimizer, the only one.
        share_buffers: give all ranks rank 0's buffers (running means and the like) in each step.
        on_resize: called in every new world before its first step.
        on_step: called after every completed step.
        checkpoint_every_s: seconds between two checkpoints.
        keep_checkpoints: number of the newest checkpoints to keep.
        background_checkpoints: rank 0 writes a copy of the state while the training goes on; False: all wait, and
            no memory is needed for a copy.
        progress_every_s: seconds between two lines of progress.
        trainer: the trainer's directory; the agent's by default, a temporary one without agent.

    Attributes:
        model: as given.
        batches: batches to iterate over, within an epoch.
        state: state of the training.
        log: log whose lines begin with the rank.
    """

    _name = "run.epochs()"
    """The iterator of the script's loop, in words."""

    @plain_errors()
    def __init__(
        self,
        model: torch.nn.Module | Sequence[torch.nn.Module],
        optimizer: torch.optim.Optimizer | Sequence[torch.optim.Optimizer],
        data: Any,
        batch: FixedBatch | ScaledBatch | None = None,
        *,
        epochs: int = 1,
        seed: int = 0,
        shuffle: bool = True,
        drop_last: bool = False,
        also: Mapping[str, Stateful] | None = None,
        local: LocalSteps | None = None,
        scaling: AdaScale | None = None,
        overlap: bool = False,
        share_buffers: bool = True,
        on_resize: Callable[[Resize], object] | None = None,
        on_step: Callable[[StepResult], object] | None = None,
        checkpoint_every_s: float = 600.0,
        keep_checkpoints: int = 3,
        background_checkpoints: bool = True,
        progress_every_s: float = 5.0,
        trainer: Path | None = None,
    ) -> None:
        also = also or {}
        # The loader that was given to accelerate.
        data = getattr(data, "base_dataloader", data) if _is_prepared(data) else data
        order = BatchOrder.of(data, batch, seed, shuffle=shuffle, drop_last=drop_last)
        sampler = order.sampler(epochs, seed)
        drawing = self._drawing = self._read(order, data, sampler)
        given: Sequence[Any] = [optimizer] if isinstance(optimizer, torch.optim.Optimizer) else optimizer
        # The ones inside, where Hugging Face's accelerate has wrapped them: these make the updates.
        optimizers = [wrapped.optimizer if _is_prepared(wrapped) else wrapped for wrapped in given]
        module = model if isinstance(model, torch.nn.Module) else torch.nn.ModuleList(model)
        _check(module, optimizers, also.values(), local, scaling)
        rounds = None if local is None else Rounds(local, parameters_of(optimizers[0]))
        carried = _carried(drawing, rounds, scaling, also)
        state = self.state = TrainingState(module, optimizers, sampler, carried)
        records = RecordOptions(progress_every_s, checkpoint_every_s, keep_checkpoints, background_checkpoints)
        training = self._training = ElasticTraining(
            state, drawing.batch, trainer, records, self._on_world, can_be_fed=rounds is None
        )
        self._updates = Updates(
            state, training, drawing, rounds, scaling, share_buffers=share_buffers, on_step=on_step
        )
        self._watch_scalers(also.values())
        self._on_resize, self._overlaps = on_resize, overlap
        self._last_size, self._is_in_epochs, self._is_catching_up = 0, False, False
        self.model: Any = model
        self.batches = Batches(self, drawing)
        self.log = RankLog(self)

    # -- what scripts ask

    def epochs(self) -> Iterator[int]:
        """The epochs, from 0; a worker that joins in the middle of one begins with that one.

        If this worker has to leave before the end, or joined when all was done, the process ends in here, or where
        it takes a batch, with status 0: what follows the loop is for those who see the training through.
        """
        training = self._training
        with training.ending_the_process():
            self._begin()
            self._is_in_epochs = True
            while not training.over:
                self._drawing.restart()
                yield self.state.sampler.epoch
                self._end_epoch()
            # Nobody ends before all have come to the end: the rank that is to record it may be lost on the way.
            if training.settle():
                self._begin_world()
            while not training.meets_all():
                self._enter_world()
            training.finish()

    def first_time(self) -> bool:
        """Whether the top of this epoch is run for the first time; what changes the training belongs under it.

        False in a worker that has joined when the others had passed there: it has what they made of the training.
        """
        with self._training.ending_the_process():
            self._begin()
        return not self.state.is_begun

    def carry(self, **items: Stateful) -> None:
        """Carry these along, too, as ``also`` does: what can only be made within the context, such as a schedule.

        Raises:
            InputError: the training has begun.
        """
        if self._training.present_world is not None:
            raise InputError(
                "run.carry() was called after the training had begun, whose state is shared already.",
                "Call it before run.epochs(), and before anything that needs the other ranks.",
            )
        self.state.also.update(items)
        self._watch_scalers(items.values())

    @property
    def rank(self) -> int:
        """This process's rank in the present world."""
        return self._world.rank

    @property
    def world_size(self) -> int:
        """Ranks in the present world."""
        return self._world.size

    @property
    def is_main(self) -> bool:
        """Whether this is rank 0, which logs and saves for all."""
        return self.rank == 0

    @property
    def device(self) -> torch.device:
        """The model's device."""
        return device_of(self.state.module)

    @property
    def step(self) -> int:
        """Steps completed."""
        return self.state.step

    @property
    def who(self) -> str:
        """This rank in words."""
        world = self._training.present_world
        return f"rank {world.rank} of {world.size}" if world is not None else "no rank yet"

    def print(self, *values: object, **options: Any) -> None:
        """Print as Python does, on rank 0 alone."""
        if self.is_main:
            print(*values, **options)

    def checkpoint(self) -> None:
        """Write a checkpoint at the end of this step."""
        self._training.wants_checkpoint = True

    def stop(self) -> None:
        """End the training on all ranks at the end of this step; of the next one, if gradients are summed already.

        The training is then complete, as after its last epoch. One rank's word is enough.
        """
        self._training.wants_stop = True

    def sync(self, *optimizers: torch.optim.Optimizer) -> None:
        """Add up the gradients of these optimizers (of all, by default) now: to clip or to unscale the sums.

        Otherwise ``optimizer.step()`` does this.
        """
        with self._training.ending_the_process():
            for optimizer in optimizers or self.state.optimizers:
                self._updates.sum(optimizer)

    def gather(self, value: Any) -> list[Any]:
        """Values of all ranks, in order of rank; all ranks have to ask for them.

        If a rank is lost meanwhile between two epochs, the ranks that are left gather again. Within a step, which
        then is made again unless its updates are complete, and in a worker that has just joined and has not come
        to where the others are, it is this rank's value alone.

        Args:
            value: a number, a string, a tensor, or plain containers of these.
        """
        content = encode(value)
        with self._training.ending_the_process():
            self._begin()
            if self._is_catching_up or self._updates.lost is not None:
                return [value]
            if self._updates.is_under_way:
                try:
                    return decode_all(gather_announced(content, self._training.world))
                except LostRankError as error:
                    self._updates.lose(error)
                    return [value]
            # Between steps nothing is made again, so the ranks that are left repeat the exchange itself.
            contents, is_new_world = self._training.exchange(content)
            if is_new_world:
                self._begin_world()
            return decode_all(contents)

    def mean(self, value: Any, weight: float = 1.0) -> float:
        """The mean of all ranks' numbers, as :meth:`gather` has them; the weight may be a number of samples."""
        pairs = self.gather([float(value) * weight, float(weight)])
        total = sum(weight for _, weight in pairs)
        return sum(product for product, _ in pairs) / total if total else float("nan")

    # -- context

    def __enter__(self) -> Self:
        """Join the trainer."""
        try:
            self._updates.check_schedules()
            self._training.join()
        except FreetrainError as error:
            raise as_exit(error) from None
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave the trainer."""
        self._drawing.close()
        # Asked before it leaves, since nothing is watched afterwards.
        is_replica_lost = self._training.is_replica_lost(error)
        self._training.leave(error, self._name)
        if is_replica_lost:
            raise lost_replica() from None

    # -- batches

    def take(self) -> tuple[int, Any] | None:
        """This rank's part of the next batch and its number in the epoch; None at the end of the epoch."""
        training, updates = self._training, self._updates
        with training.ending_the_process():
            if not self._is_in_epochs:
                raise InputError("run.batches gives batches only within 'for epoch in run.epochs():'.")
            if updates.is_complete:
                self._conclude()
            self._is_catching_up, self.state.is_begun = False, True
            if training.broke_with is not None:  # while the script itself exchanged something
                self._enter_world()
            if training.settle():
                self._begin_world()
            while not training.over:
                taken = updates.next_batch()
                if taken is not None or not updates.count:
                    if taken is not None and self._overlaps:
                        updates.begin_backward()
                    return taken
                # The epoch ends within a round of steps, whose batches come again if it is lost.
                self._conclude()
        return None

    def _conclude(self) -> None:
        """The step is over; what follows may be another world."""
        if not self._updates.conclude():
            self._enter_world()

    def _read(self, order: BatchOrder, data: Any, sampler: Sampler) -> StepBatches:
        return order.read(data, sampler)

    # -- worlds and epochs

    @property
    def _world(self) -> World:
        """The present world; the first question that needs one enters it."""
        with self._training.ending_the_process():
            self._begin()
        return self._training.world

    def _begin(self) -> None:
        """Enter the first world."""
        if not self._training.is_joined:
            raise InputError("nothing can be asked of a training before 'with elastic.Loop(...) as run:'.")
        if self._training.present_world is None:
            self._updates.check_schedules()
            self._enter_world()
            # The others have passed the place where the script of this newcomer is.
            self._is_catching_up = self.state.is_begun

    def _enter_world(self) -> None:
        self._training.enter_world()
        self._begin_world()

    def _begin_world(self) -> None:
        self._drawing.restart()
        old, self._last_size = self._last_size, self._training.world.size
        if self._on_resize is not None:
            per_step = self._drawing.batch.per_step
            self._on_resize(Resize(old, self._last_size, per_step(old) if old else 0, per_step(self._last_size)))

    def _on_world(self, world: World | None) -> None:
        """All ranks of this world have the same state; None: the world is about to end."""
        if world is None:
            self._updates.leave_world()
        else:
            world.is_script_alone = lambda: self._is_catching_up
            world.on_script_loss = self._lose_in_script

    def _lose_in_script(self, error: LostRankError) -> None:
        """A rank was lost while the script, or a library, exchanged something by itself."""
        if self._updates.is_under_way:
            self._updates.lose(error)
        else:
            self._training.lose_step(error)

    def _end_epoch(self) -> None:
        """The script asks for the next epoch, with which workers begin that join now."""
        stays = not self._updates.count or self._updates.conclude()
        if not self._training.over and not self._drawing.is_at_end and stays:
            sampler = self.state.sampler
            log.warning(
                "the script left the loop over run.batches after %d batches of epoch %d: the rest of the epoch is "
                "left out. To end the training there, call run.stop() in place of 'break'.",
                sampler.batches,
                sampler.epoch,
            )
        self._updates.forget()
        if not self._training.over:
            self.state.sampler.end_epoch()
            self.state.is_begun = False
        # Only now: a worker that joins must not repeat what the script did at the end of this epoch.
        if not stays or self._training.broke_with is not None:
            self._enter_world()

    def _watch_scalers(self, items: Iterable[object]) -> None:
        for item in items:
            if isinstance(item, torch.amp.GradScaler):
                self._updates.sum_before_unscaling(item)


class Batches:
    """This rank's part of each batch of the epoch; what is left of it where this worker joined in its middle."""

    def __init__(self, loop: Loop, drawing: StepBatches) -> None:
        self.dataset = drawing.dataset
        self._loop, self._drawing = loop, drawing
        self._has_warned = False

    def __len__(self) -> int:
        """Batches of the epoch, if the world does not change."""
        return self._drawing.batches_per_epoch(lambda: self._loop.world_size)

    def __iter__(self) -> Iterator[Any]:
        """Batch by batch; warns of what the script reads beside it, of which each rank would read all."""
        # One frame up from this generator: what iterates over it.
        caller = sys._getframe(1)
        line = linecache.getline(caller.f_code.co_filename, caller.f_lineno)
        if not self._has_warned and _ZIP.search(line):
            self._has_warned = True
            log.warning(
                "%s:%d zips run.batches with something else, which is not divided among the ranks: each reads all "
                "of it. Give several loaders as one: elastic.Loop(model, optimizer, [loader, other]).",
                caller.f_code.co_filename,
                caller.f_lineno,
            )
        for _, batch in self.numbered():
            yield batch

    def numbered(self) -> Iterator[tuple[int, Any]]:
        """Batches with numbers, in place of ``enumerate``: the same on all ranks, also in a repeated step."""
        while (taken := self._loop.take()) is not None:
            yield taken


class RankLog(logging.LoggerAdapter[logging.Logger]):
    """A log whose lines begin with the rank."""

    def __init__(self, loop: Loop) -> None:
        super().__init__(logging.getLogger("freetrain.script"), {})
        self._loop = loop

    def process(self, msg: Any, kwargs: Any) -> tuple[Any, Any]:
        """The message with the rank before it."""
        return f"[{self._loop.who}] {msg}", kwargs


# -- what the script gave: checked, unwrapped, carried along


def _is_prepared(wrapped: object) -> bool:
    return type(wrapped).__module__.startswith("accelerate.")


def _check(
    module: torch.nn.Module,
    optimizers: Sequence[torch.optim.Optimizer],
    also: Iterable[object],
    local: LocalSteps | None,
    scaling: AdaScale | None,
) -> None:
    """Whether the script wants only what goes together; raises InputError otherwise."""
    check_sharding(module, also)
    if scaling is not None and any(map(is_sharded, module.parameters())):
        raise InputError(
            "AdaScale cannot measure the gradients of a sharded model.", "Leave out scaling=..., or do not shard."
        )
    parameters = [parameter for optimizer in optimizers for parameter in parameters_of(optimizer)]
    scales = any(isinstance(item, torch.amp.GradScaler) for item in also)
    if local is not None and (len(optimizers) > 1 or scales or any(map(is_sharded, parameters))):
        raise InputError(
            "local steps cannot be made with several optimizers, a GradScaler or a sharded model.",
            "Leave out local=..., so that the gradients of each step are added up.",
        )


def _carried(
    drawing: StepBatches, rounds: Rounds | None, scaling: AdaScale | None, also: Mapping[str, Stateful]
) -> dict[str, Stateful]:
    """State that goes along besides model, optimizers and sampler, by name."""
    own: dict[str, Any] = {
        "freetrain.data": drawing if isinstance(drawing, Streaming) else None,
        "freetrain.outer": rounds.outer if rounds is not None else None,
        "freetrain.scaling": scaling,
    }
    return {**{name: item for name, item in own.items() if item is not None}, **also}
