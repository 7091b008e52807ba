"""Foresight: what a replay lets the policy know of the time to come."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Knows(StrEnum):
    """What is known of the ends of holes."""

    NONE = "none"
    """Only how long nodes stay on the whole."""
    LEARNED = "learned"
    """How long those that are idle now are expected to stay, as nodes of their ages did in the log so far."""
    PLAN = "plan"
    """That too, and when jobs that wait are planned to start, by the limits of those that run: all that can be
    known."""
    PERFECT = "perfect"
    """Each end within the horizon, as nobody can know: the most that a forecast can bring."""


@dataclass(frozen=True, slots=True)
class Foresight:
    """How far ahead a decision looks, and what it sees there.

    Attributes:
        horizon_s: how far ahead value is counted; 0: as long as idle nodes are expected to stay.
        knows: what is known of the ends of holes.
    """

    horizon_s: float = 0.0
    knows: Knows = Knows.NONE
