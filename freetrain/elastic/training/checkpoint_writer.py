"""Checkpoints that are written while the training goes on."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, Protocol

from freetrain.elastic.training.state import TrainingState
from freetrain.elastic.training.state_copy import StateCopy


class Checkpoints(Protocol):
    """Where they go, and how."""

    def save(self, state: dict[str, Any], step: int) -> Path:
        """Write the state; raises CheckpointError if it cannot be written."""


class CheckpointWriter:
    """Writes one checkpoint at a time.

    The process does not end before what was started is written. If it is killed, the checkpoint before is the
    newest.

    Args:
        checkpoints: where they go.
        state: of the training.
        in_background: write a copy of the state while the training goes on; False: no memory is needed for a copy,
            and the training waits.
    """

    def __init__(self, checkpoints: Checkpoints, state: TrainingState, *, in_background: bool) -> None:
        self._checkpoints = checkpoints
        self._state = state
        self._in_background = in_background
        self._copy = StateCopy()
        self._thread = ThreadPoolExecutor(1, "freetrain-checkpoint")
        self._under_way: Future[Path] | None = None

    @property
    def is_busy(self) -> bool:
        """Whether something is being written."""
        return self._under_way is not None and not self._under_way.done()

    def start(self) -> None:
        """Write the state as it is now; nothing else may be under way.

        Raises:
            CheckpointError: it cannot be written, and the training waited for it.
        """
        if not self._in_background:
            self.write()
            return
        copied = self._copy.of(self._state.capture())
        self._under_way = self._thread.submit(self._checkpoints.save, copied, self._state.step)

    def write(self) -> None:
        """Write the state as it is now, and return when it is on disk.

        Raises:
            CheckpointError: it cannot be written.
        """
        self._checkpoints.save(self._state.capture(), self._state.step)

    def wait(self) -> None:
        """Until what was started is on disk.

        Raises:
            CheckpointError: it could not be written.
        """
        under_way, self._under_way = self._under_way, None
        if under_way is not None:
            under_way.result()
