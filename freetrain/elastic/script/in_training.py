"""What every script may ask of the training it takes part in, whoever makes the steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Self

from freetrain.elastic.errors import as_exit
from freetrain.elastic.training.state import TrainingState
from freetrain.elastic.training.training import Training
from freetrain.errors import FreetrainError


class InTraining:
    """A script's view of the training.

    Attributes:
        state: of the training.
    """

    state: TrainingState
    _training: Training
    _check_schedules: Callable[[], None]
    """Raises InputError if learning rate schedules are not carried along."""

    def __enter__(self) -> Self:
        """Join the trainer."""
        try:
            self._check_schedules()
            self._training.join()
        except FreetrainError as error:
            raise as_exit(error) from None
        return self

    @property
    def rank(self) -> int:
        """This process's rank in the present world."""
        return self._training.world.rank

    @property
    def world_size(self) -> int:
        """Ranks in the present world."""
        return self._training.world.size

    @property
    def step(self) -> int:
        """Steps completed."""
        return self.state.step

    def checkpoint(self) -> None:
        """Write a checkpoint at the end of this step."""
        self._training.wants_checkpoint = True

    def stop(self) -> None:
        """End the training on all ranks at the end of this step; of the next one, if gradients are summed already.

        The training is then complete, as after its last epoch. One rank's word is enough.
        """
        self._training.wants_stop = True
