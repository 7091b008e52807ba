"""What the ranks tell each other with the one sum that they make in every step: pure arithmetic."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

_RATE_TOLERANCE = 1e-4
_VALUE_TOLERANCE = 1e-3
"""Relative. Ranks on processors of different makes may differ in the last digits and drift apart a bit, and sums
over thousands of ranks round; a rank that goes a way of its own differs by more before long."""


class Difference(StrEnum):
    """In what the ranks differ although they must not."""

    RATES = "learning rates"
    VALUES = "parameters"


@dataclass(frozen=True, slots=True)
class Ballot:
    """What one rank has to say.

    Attributes:
        change: whether it knows of a newer world that waits.
        stop: whether its script wants the training to end.
        loss_share: its part of the step's mean loss.
        rates: its learning rates.
        values: some of its parameters; each rank the same ones.
        shard: which shard of the model it has; values are compared with those of ranks that have the same.
        shards: how many there are.
    """

    change: bool
    stop: bool
    loss_share: float
    rates: Sequence[float] = ()
    values: Sequence[float] = ()
    shard: int = 0
    shards: int = 1

    def numbers(self) -> list[float]:
        """As they are summed."""
        flags = [float(self.change), float(self.stop), self.loss_share]
        values = [_NO_MARKS] * self.shards
        values[self.shard] = _marks(self.values)
        return [*flags, *_marks(self.rates), *itertools.chain(*values)]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What all ranks know after the sum, each the same.

    Attributes:
        change: whether the world changes now.
        stop: whether the training ends now.
        loss: mean over the step's samples.
        difference: in what the ranks differ although they must not; None: in nothing.
    """

    change: bool
    stop: bool
    loss: float
    difference: Difference | None = None


def count(sums: Sequence[float], world: int, shards: int = 1) -> Verdict:
    """What the ballots of all ranks of a world come to, of whom so many have the shards of one model."""
    changes, stops, loss, *marks = sums
    rates, *values = (marks[start : start + 3] for start in range(0, len(marks), 3))
    difference = None
    if any(_differ(each, world // shards, _VALUE_TOLERANCE) for each in values):
        difference = Difference.VALUES
    if _differ(rates, world, _RATE_TOLERANCE):
        difference = Difference.RATES
    return Verdict(changes > 0, stops > 0, loss, difference)


_NO_MARKS = (0.0, 0.0, 0.0)


def _marks(values: Sequence[float]) -> tuple[float, float, float]:
    """Numbers whose sums tell whether all ranks have the same values: a weighted sum, its square, and its size."""
    weighted = [place * value for place, value in enumerate(values, 1)]
    total = sum(weighted)
    return total, total * total, sum(map(abs, weighted))


def _differ(sums: Sequence[float], world: int, tolerance: float) -> bool:
    """Whether the marks of the ranks were not all the same.

    For n ranks with marks x, n Σx² − (Σx)² is 0 if all are equal, and (n − 1) d² if one is off by d. What is
    not a number differs from nothing: it is the script's to look for.
    """
    total, squares, size = sums
    if world < 2:
        return False
    off_squared = (world * squares - total * total) / (world - 1)
    return off_squared > (tolerance * size / world) ** 2
