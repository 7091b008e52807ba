"""Steps of a script: from the first batch to the first one after an optimizer's step."""

from __future__ import annotations

import linecache
import logging
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch

from freetrain.elastic.data.batching import Draw, StepBatches
from freetrain.elastic.script.updates import Updates
from freetrain.elastic.training.agreement import StepVerdict
from freetrain.elastic.training.state import TrainingState
from freetrain.elastic.training.training import ElasticTraining
from freetrain.errors import InputError

if TYPE_CHECKING:
    from freetrain.elastic.script.loop import Loop

log = logging.getLogger(__name__)

# How torch's schedules mark the step function of their optimizer, in newer and in older versions.
_SCHEDULED = ("_wrapped_by_lr_sched", "_with_counter")
# Far enough for a schedule within a wrapper, and an end where objects refer to each other in a circle.
_DEPTH = 4
_ZIP = re.compile(r"\bzip(_longest)?\(")


class Steps:
    """Begins steps, and concludes them when the script has come to the next one."""

    def __init__(
        self,
        state: TrainingState,
        training: ElasticTraining,
        optimizers: Sequence[torch.optim.Optimizer],
        updates: Updates,
        drawing: StepBatches,
        completed: Callable[[StepVerdict, Sequence[Draw], int], object],
    ) -> None:
        self._state = state
        self._training = training
        self._updates = updates
        self._drawing = drawing
        self._completed = completed
        self._schedules = [Schedules(optimizer, state.also) for optimizer in optimizers]

    def check_schedules(self) -> None:
        """Raises InputError if learning rate schedules are not carried along."""
        for schedule in self._schedules:
            schedule.check()

    @property
    def is_under_way(self) -> bool:
        """Whether the script has taken a batch of a step that is not concluded."""
        return bool(self._drawing.taken)

    @property
    def is_over(self) -> bool:
        """Whether the script has come to the end of a step that is not concluded."""
        return self._updates.is_complete

    @property
    def is_begun(self) -> bool:
        """Whether an optimizer has stepped in a step that is not concluded."""
        return self._updates.count > 0

    def next_batch(self) -> tuple[int, Any] | None:
        """This rank's part of one batch more for the step, and its number; None at the end of the epoch.

        Raises InputError if no optimizer has stepped in a whole epoch.
        """
        begins = not self.is_under_way
        drawn = self._drawing.next(self._training.world)
        if drawn is None:
            if not self.is_begun:
                self._drop_unfinished()
            return None
        draw, batch = drawn
        if begins:
            self._updates.begin_step()
        self._updates.weigh(draw.weight)
        return self._drawing.number, batch

    def conclude(self) -> bool:
        """True if the next step takes place in the same world, or none follows."""
        training, updates = self._training, self._updates
        updates.finish_round()
        if updates.lost is not None:
            updates.take_back()
            training.lose_step(updates.lost)
            self.forget()
            if self._state.updates:  # which newcomers have made, too
                training.worlds.feeder.after_step()
            return False
        samples, wait_s, exposed_s = self._drawing.samples, self._drawing.wait_s, updates.exposed_s
        batches, epoch = list(self._drawing.taken), self._state.sampler.epoch
        self.check_schedules()
        self._state.note_step(samples, len(batches))
        self.forget()
        verdict = training.conclude()
        self._completed(verdict, batches, epoch)
        training.record(samples, wait_s, exposed_s)
        training.worlds.feeder.after_step()
        return not verdict.change

    def forget(self) -> None:
        """No step is under way."""
        self._updates.end_step()
        self._drawing.forget_step()

    def _drop_unfinished(self) -> None:
        """Batches at the end of an epoch after which no optimizer stepped take no part."""
        if self.is_under_way and self._state.sampler.position == 0:
            raise InputError(
                "an epoch ended without a step of the optimizer that elastic.Loop was given.",
                "Give it the optimizers that the script steps, and step them within each epoch.",
            )
        if self.is_under_way:
            self._state.optimizer.zero_grad(set_to_none=True)
        self.forget()


class Schedules:
    """The schedules of an optimizer's learning rates, of which the script may make some at any time."""

    def __init__(self, optimizer: torch.optim.Optimizer, also: Mapping[str, Any]) -> None:
        self._optimizer = optimizer
        self._also = also
        self._is_carried = False

    def check(self) -> None:
        """Whether one of them is carried along, if there are any; raises InputError if there are, but none is."""
        if self._is_carried or not any(hasattr(self._optimizer.step, mark) for mark in _SCHEDULED):
            return
        self._is_carried = _mentions(self._also, self._optimizer, _DEPTH)
        if not self._is_carried:
            raise InputError(
                "the optimizer has a learning rate schedule that is not in also={...}: newcomers and resumed "
                "trainings would begin it again from its start.",
                'Say also={"schedule": schedule}, or run.carry(schedule=schedule) before the first step.',
            )


def _mentions(item: Any, optimizer: torch.optim.Optimizer, depth: int) -> bool:
    """Whether the item is a schedule of this optimizer, or contains one."""
    if getattr(item, "optimizer", None) is optimizer:
        return True
    if depth == 0:
        return False
    if isinstance(item, Mapping):
        parts = list(item.values())
    elif isinstance(item, list | tuple):
        parts = list(item)
    else:
        parts = list(getattr(item, "__dict__", {}).values())
    return any(_mentions(part, optimizer, depth - 1) for part in parts)


class Batches:
    """This rank's part of each batch of the epoch; what is left of it where this worker joined in its middle."""

    def __init__(self, loop: Loop, dataset: Any) -> None:
        self.dataset = dataset
        self._loop = loop
        self._has_warned = False

    def __len__(self) -> int:
        """Batches of the epoch."""
        return self._loop.batches_per_epoch()

    def __iter__(self) -> Iterator[Any]:
        """Batch by batch."""
        self._look_for_zip()
        for _, batch in self.numbered():
            yield batch

    def _look_for_zip(self) -> None:
        """Whether the script reads something else beside it, of which each rank would read all."""
        # Two frames up: the generator of __iter__, then the one that iterates.
        caller = sys._getframe(2)
        line = linecache.getline(caller.f_code.co_filename, caller.f_lineno)
        if not self._has_warned and _ZIP.search(line):
            self._has_warned = True
            log.warning(
                "%s:%d zips run.batches with something else, which is not divided among the ranks: each reads all "
                "of it. Give several loaders as one: elastic.Loop(model, optimizer, [loader, other]).",
                caller.f_code.co_filename,
                caller.f_lineno,
            )

    def numbered(self) -> Iterator[tuple[int, Any]]:
        """Batches with numbers, in place of ``enumerate``: the same on all ranks, also in a repeated step."""
        while (taken := self._loop.take()) is not None:
            yield taken
