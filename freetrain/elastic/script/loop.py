"""An elastic training whose script keeps its loop: its own batches, backward passes and optimizers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, cast

import torch

from freetrain.elastic.data.batches import Batches
from freetrain.elastic.data.batching import FixedBatch, ScaledBatch
from freetrain.elastic.data.drawing import BatchStream, Drawing
from freetrain.elastic.data.orders import Order
from freetrain.elastic.data.sampler import Sampler
from freetrain.elastic.data.step_batches import StepBatches
from freetrain.elastic.data.streaming import Streaming, is_stream
from freetrain.elastic.errors import LostRankError
from freetrain.elastic.script.hooks import Hooks, Resize
from freetrain.elastic.script.in_training import InTraining
from freetrain.elastic.script.kept_steps import KeptSteps
from freetrain.elastic.script.local_steps import LocalSteps, Rounds
from freetrain.elastic.script.sharding import check_sharding
from freetrain.elastic.script.updates import Updates, parameters_of
from freetrain.elastic.training.optimizers import Optimizers
from freetrain.elastic.training.records import RecordOptions
from freetrain.elastic.training.shards import is_sharded
from freetrain.elastic.training.state import Stateful, TrainingState
from freetrain.elastic.training.training import Training
from freetrain.elastic.worlds.exchange import decode_all, encode, gather_bytes
from freetrain.elastic.worlds.replica import lost_replica
from freetrain.errors import InputError

_DATA = "freetrain.data"
"""The name under which the place in data that can only be read in order is carried along."""

_OUTER = "freetrain.outer"
"""That of the optimizer that steps when ranks meet after steps of their own."""


class Loop(InTraining):
    """An elastic training; use it as a context, with loops over :meth:`epochs` and :attr:`batches`.

    The script computes losses, calls ``loss.backward()`` and steps its optimizers, each of which adds up its
    gradients over the ranks first. A step ends where the script takes the first batch after an optimizer's step.

    Args:
        model: on its device already, or several of them.
        optimizer: of their parameters, or several of them.
        data: a DataLoader, a data set with length and items or one that can only be iterated over, or the number
            of samples (batches are then tensors of ids).
        batch: samples per batch, over all ranks; the DataLoader's ``batch_size`` if it is not given.
        epochs: passes over the data.
        seed: of the order of the samples.
        shuffle: False keeps the data set's order; a DataLoader says this itself.
        drop_last: leave out the last batch of an epoch if it is not a whole one; a DataLoader says this itself.
        also: more to carry along by name: anything with ``state_dict`` and ``load_state_dict``.
        local: let each rank make several steps by itself before the ranks meet: :class:`LocalSteps`; a step of the
            training is then a round of these.
        share_buffers: give all ranks rank 0's buffers (running means and the like) at the start of each step.
        on_resize: called in every new world before its first step.
        checkpoint_every_s: seconds between two checkpoints.
        keep_checkpoints: how many of the newest to keep.
        background_checkpoints: rank 0 writes a copy of the state while the training goes on; False: all wait, and
            no memory is needed for a copy.
        progress_every_s: seconds between two lines of progress.
        trainer: the trainer's directory; the agent's by default, a temporary one without agent.
    """

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
        share_buffers: bool = True,
        on_resize: Callable[[Resize], object] | None = None,
        checkpoint_every_s: float = 600.0,
        keep_checkpoints: int = 3,
        background_checkpoints: bool = True,
        progress_every_s: float = 5.0,
        trainer: Path | None = None,
    ) -> None:
        order = Order.of(data, batch, seed, shuffle=shuffle, drop_last=drop_last)
        sampler = order.sampler(epochs, seed)
        module = model if isinstance(model, torch.nn.Module) else torch.nn.ModuleList(model)
        check_sharding(module, (also or {}).values())
        self._optimizers = [optimizer] if isinstance(optimizer, torch.optim.Optimizer) else list(optimizer)
        together = cast(torch.optim.Optimizer, Optimizers(self._optimizers))
        self._drawing, place = _drawing_of(data, sampler, order.batch)
        rounds = _rounds_of(local, self._optimizers, (also or {}).values())
        outer = {} if rounds is None else {_OUTER: rounds.outer}
        self.state = TrainingState(module, together, sampler, {**place, **outer, **(also or {})})
        self._updates = Updates(self.state, self._optimizers, lambda: self._training.vote(), rounds)
        for item in (also or {}).values():
            if isinstance(item, torch.amp.GradScaler):
                self._updates.sum_before_unscaling(item)
        records = RecordOptions(progress_every_s, checkpoint_every_s, keep_checkpoints, background_checkpoints)
        self._training = Training(
            self.state, self._updates, order.batch, can_be_fed=rounds is None, trainer=trainer, records=records
        )
        self._steps = KeptSteps(
            self.state,
            self._training,
            self._optimizers,
            self._updates,
            self._drawing,
            also or {},
            share_buffers=share_buffers,
        )
        self._check_schedules = self._steps.check_schedules
        self._hooks = Hooks(order.batch, on_resize, None, None)
        self._is_in_a_world = False
        self._catches_up = True
        self.batches = Batches(self, self._drawing.dataset)

    # -- what scripts ask

    def epochs(self) -> Iterator[int]:
        """The epochs, from 0; a worker that joins in the middle of one begins with that one.

        If this worker has to leave before the end, or joined when all was done, the process ends in here, or where
        it takes a batch, with status 0: what follows the loop is for those who see the training through.
        """
        training = self._training
        with training.ending_the_process():
            self._enter_world()
            self._is_in_a_world = True
            self._catches_up = not training.worlds.sees_it_through
            while not training.over:
                self._drawing.restart()
                yield self.state.sampler.epoch
                self._end_epoch()
            self._await_all()
            training.finish()

    def sync(self, *optimizers: torch.optim.Optimizer) -> None:
        """Add up the gradients of these optimizers (of all, by default) now: to clip or to unscale the sums.

        Otherwise ``optimizer.step()`` does this.
        """
        with self._training.ending_the_process():
            for each in optimizers or self._optimizers:
                self._updates.sum(each)

    def gather(self, value: Any) -> list[Any]:
        """Everybody's value, in order of rank; all ranks have to ask for it.

        If a rank is lost meanwhile between two epochs, those who are left gather anew. Within a step, which then
        is made again unless its updates are complete, and in a worker that has just joined and has not come to
        where the others are, it is this rank's value alone.

        Args:
            value: a number, a string, a tensor, or plain containers of these.
        """
        content = encode(value)
        if self._catches_up or self._updates.lost is not None:
            return [value]
        with self._training.ending_the_process():
            if self._steps.is_under_way:
                try:
                    return decode_all(gather_bytes(content, self._training.world))
                except LostRankError:
                    return [value]
            contents, is_new_world = self._training.exchange(content)
            if is_new_world:
                self._begin_world()
            return decode_all(contents)

    def mean(self, value: Any, weight: float = 1.0) -> float:
        """The mean of everybody's values, as :meth:`gather` has them.

        Args:
            value: a number.
            weight: how much this rank's counts: its number of samples, for example.
        """
        pairs = self.gather([float(value) * weight, float(weight)])
        total = sum(weight for _, weight in pairs)
        return sum(product for product, _ in pairs) / total if total else float("nan")

    # -- context

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave the trainer."""
        self._drawing.close()
        is_replica_lost = self._training.is_replica_lost(error)
        self._training.leave(error, "run.epochs()")
        if is_replica_lost:
            raise lost_replica() from None

    # -- batches

    def take(self) -> tuple[int, Any] | None:
        """This rank's part of the next batch and its number in the epoch; None at the end of the epoch."""
        with self._training.ending_the_process():
            return self._take()

    def batches_per_epoch(self) -> int:
        """How many there are in this epoch, if the world does not change."""
        return self._drawing.batches_per_epoch(self.world_size)

    def _take(self) -> tuple[int, Any] | None:
        if not self._is_in_a_world:
            raise InputError("run.batches gives batches only within 'for epoch in run.epochs():'.")
        if self._steps.is_over and not self._steps.conclude():
            self._enter_world()
        self._catches_up = False
        if self._training.settle():
            self._begin_world()
        while not self._training.over:
            taken = self._steps.next_batch()
            if taken is not None or not self._steps.is_begun:
                return taken
            # The epoch ends within a round of steps, whose batches come again if it is lost.
            if not self._steps.conclude():
                self._enter_world()
        return None

    # -- worlds and epochs

    def _enter_world(self) -> None:
        self._training.enter_world()
        self._begin_world()

    def _begin_world(self) -> None:
        self._drawing.restart()
        self._hooks.resized(self.world_size)

    def _await_all(self) -> None:
        """Nobody ends before all have come to the end: who is to write that down may be lost on the way there."""
        if self._training.settle():
            self._begin_world()
        while not self._training.meets_all():
            self._enter_world()

    def _end_epoch(self) -> None:
        """The script asks for the next epoch.

        Who joins now begins with that one: it must not do again what the script has done at the end of this one.
        """
        stays = not self._steps.is_begun or self._steps.conclude()
        self._steps.forget()
        if not self._training.over:
            self.state.sampler.end_epoch()
        if not stays:
            self._enter_world()


def _rounds_of(
    local: LocalSteps | None, optimizers: Sequence[torch.optim.Optimizer], also: Iterable[object]
) -> Rounds | None:
    """The rounds that the script wants, if any.

    Raises:
        InputError: it wants something that ranks cannot do by themselves.
    """
    if local is None:
        return None
    parameters = [each for optimizer in optimizers for each in parameters_of(optimizer)]
    scales = any(isinstance(each, torch.amp.GradScaler) for each in also)
    if len(optimizers) > 1 or scales or any(map(is_sharded, parameters)):
        raise InputError(
            "local steps cannot be made with several optimizers, a GradScaler or a sharded model.",
            "Leave out local=..., so that the gradients of each step are added up.",
        )
    return Rounds(local, parameters)


def _drawing_of(
    data: Any, sampler: Sampler, batch: FixedBatch | ScaledBatch
) -> tuple[StepBatches, Mapping[str, Stateful]]:
    """The batches of each step, and what says how far they are besides the sampler."""
    if is_stream(data):
        stream = Streaming(data, sampler, batch)
        return stream, {_DATA: stream}
    return Drawing(sampler, batch, BatchStream(data)), {}
