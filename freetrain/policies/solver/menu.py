"""A menu: what one trainer may be given, in the form in which HiGHS gets to see it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from freetrain.policies.solver.pieces import Piece


@dataclass(frozen=True, slots=True)
class Menu:
    """What one trainer may be given.

    Attributes:
        pieces: value of its size in each interval, one list per class.
        held: nodes it has now, by class.
    """

    pieces: Sequence[Sequence[Piece]]
    held: Sequence[int]
