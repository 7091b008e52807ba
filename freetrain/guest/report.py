"""What became of a question to a guest."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class Ending(StrEnum):
    """How it ended."""

    ANSWERED = "answered"
    RAISED = "raised"
    """The function raised an exception, or what it answered cannot be sent or read."""
    TOO_LATE = "too late"
    """The deadline came first, and the process was killed."""
    DIED = "died"
    """The process ended by itself or was killed by somebody else."""
    NOT_STARTED = "not started"
    """There is no process; the question was not asked."""


@dataclass(frozen=True, slots=True)
class Report:
    """What became of a question.

    Attributes:
        ending: how it ended.
        answer: what the function returned, if it did.
        said: what happened otherwise, as the rest of a sentence that begins with the guest's name.
        took_s: wall seconds from the question to its end; the start of the process counts only where it failed.
    """

    ending: Ending
    answer: Any
    said: str
    took_s: float
