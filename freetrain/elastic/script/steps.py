"""Steps of a script: from the first batch to the first one after an optimizer's step."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from freetrain.elastic.data.step_batches import Draw, StepBatches
from freetrain.elastic.script.updates import Updates
from freetrain.elastic.training.agreement import Verdict
from freetrain.elastic.training.mistakes import Schedules
from freetrain.elastic.training.state import Stateful, TrainingState
from freetrain.elastic.training.training import Training
from freetrain.errors import InputError


class Steps:
    """Begins steps, and concludes them when the script has come to the next one.

    Args:
        state: of the training.
        training: this worker's part in it.
        optimizers: that the script steps.
        updates: which add up their gradients.
        drawing: the step's batches.
        also: what the script carries along.
        completed: told of each step that is complete: of its verdict, its batches and its epoch.
    """

    def __init__(
        self,
        state: TrainingState,
        training: Training,
        optimizers: Sequence[torch.optim.Optimizer],
        updates: Updates,
        drawing: StepBatches,
        also: Mapping[str, Stateful],
        completed: Callable[[Verdict, Sequence[Draw], int], object],
    ) -> None:
        self._state = state
        self._training = training
        self._updates = updates
        self._drawing = drawing
        self._completed = completed
        self._schedules = [Schedules(each, also) for each in optimizers]

    def check_schedules(self) -> None:
        """Raises InputError if learning rate schedules are not carried along."""
        for each in self._schedules:
            each.check()

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

        Raises:
            InputError: no optimizer has stepped in a whole epoch.
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
