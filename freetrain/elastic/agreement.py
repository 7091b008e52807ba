"""What the ranks tell each other with the one sum that they make in every step: pure arithmetic."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass


@dataclass(frozen=True, slots=True)
class Ballot:
    """What one rank has to say.

    Attributes:
        change: whether it knows of a newer world that waits.
        stop: whether its script wants the training to end.
        loss_share: its part of the step's mean loss.
    """

    change: bool
    stop: bool
    loss_share: float

    def numbers(self) -> list[float]:
        """As they are summed."""
        return [float(value) for value in astuple(self)]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What all ranks know after the sum, each the same.

    Attributes:
        change: whether the world changes now.
        stop: whether the training ends now.
        loss: mean over the step's samples.
    """

    change: bool
    stop: bool
    loss: float


def count(sums: Sequence[float]) -> Verdict:
    """What the ballots of all ranks come to."""
    changes, stops, loss = sums
    return Verdict(changes > 0, stops > 0, loss)
