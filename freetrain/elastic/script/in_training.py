"""What a script may ask of the training it takes part in, also before its first step."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any

import torch

from freetrain.elastic.script.steps import Steps
from freetrain.elastic.script.updates import Updates
from freetrain.elastic.training.state import Stateful, TrainingState
from freetrain.elastic.training.training import Training
from freetrain.elastic.worlds.device import device_of
from freetrain.elastic.worlds.world import World
from freetrain.errors import InputError


class InTraining(ABC):
    """A script's view of the training.

    Attributes:
        state: of the training.
        log: whose lines begin with the rank.
    """

    state: TrainingState
    log: RankLog
    _training: Training
    _steps: Steps
    _updates: Updates
    _catches_up: bool

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
        if self._training.has_begun:
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
        """That of the model."""
        return device_of(self.state.module)

    @property
    def step(self) -> int:
        """Steps completed."""
        return self.state.step

    def print(self, *values: object, **options: Any) -> None:
        """As Python's own, on rank 0 alone."""
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

    @property
    def _world(self) -> World:
        """The present world, which the first who asks enters."""
        with self._training.ending_the_process():
            self._begin()
        return self._training.world

    @property
    def who(self) -> str:
        """This rank in words."""
        world = self._training.present_world
        return f"rank {world.rank} of {world.size}" if world is not None else "no rank yet"

    def _begin(self) -> None:
        """Enter the first world."""
        if not self._training.is_joined:
            raise InputError("nothing can be asked of a training before 'with elastic.Loop(...) as run:'.")
        if not self._training.has_begun:
            self._steps.check_schedules()
            self._enter_world()
            self._catches_up = self.state.is_begun

    @abstractmethod
    def _enter_world(self) -> None:
        """Enter the next world."""

    def _watch_scalers(self, items: Iterable[object]) -> None:
        for item in items:
            if isinstance(item, torch.amp.GradScaler):
                self._updates.sum_before_unscaling(item)


class RankLog(logging.LoggerAdapter[logging.Logger]):
    """A log whose lines begin with the rank."""

    def __init__(self, loop: InTraining) -> None:
        super().__init__(logging.getLogger("freetrain.script"), {})
        self._loop = loop

    def process(self, msg: Any, kwargs: Any) -> tuple[Any, Any]:
        """The message with the rank before it."""
        return f"[{self._loop.who}] {msg}", kwargs
