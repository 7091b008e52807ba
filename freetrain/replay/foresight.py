"""Foresight: what a replay lets the policy know of the time to come."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Foresight:
    """How far ahead a decision looks, and what it sees there.

    Attributes:
        horizon_s: how far ahead value is counted; 0: as long as idle nodes are expected to stay.
        sees_ends: whether it is known when each hole ends, as nobody can know: the most that a forecast can bring.
    """

    horizon_s: float = 0.0
    sees_ends: bool = False
