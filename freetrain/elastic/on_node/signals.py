"""The signals by which Slurm, or a user, asks a node to leave the training."""

from __future__ import annotations

import signal
from collections.abc import Iterable
from types import FrameType


class Signals:
    """Notes the signals that ask to leave; handlers set a flag and do nothing else."""

    def __init__(self, numbers: Iterable[signal.Signals]) -> None:
        self.received: str | None = None
        self._numbers = tuple(numbers)
        self._before: dict[signal.Signals, object] = {}

    def __enter__(self) -> Signals:
        """Listen."""
        for number in self._numbers:
            self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        """Listen no more."""
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]

    def _note(self, number: int, _frame: FrameType | None) -> None:
        self.received = signal.Signals(number).name
