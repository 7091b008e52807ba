"""An allocation: what a policy answers, before anything is valued or placed."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from freetrain.core.decision import Status
from freetrain.core.problem import Counts


@dataclass(frozen=True, slots=True, eq=False)
class Allocation:
    """How many nodes of each class each trainer is to have.

    Attributes:
        counts: integers of shape (trainers, classes), in the problem's order of both.
        solver: what found it, in a word or two.
        status: how good it is known to be.
        bound: no allocation is worth more than this (``freetrain.core.value``); None: no such bound is known.
        notes: sentences for whoever asks why.

    Raises:
        TypeError: the counts are no integers, or another part is not of its kind.
        ValueError: the bound is not a number, or there is no such status.
    """

    counts: Counts
    solver: str
    status: Status = Status.HEURISTIC
    bound: float | None = None
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Who wrote the policy may not have checked its types."""
        counts = np.asarray(self.counts)
        if counts.dtype.kind not in "iu":
            raise TypeError(f"counts must be integers, not {counts.dtype}")
        if self.bound is not None:
            if math.isnan(self.bound):
                raise ValueError("bound must be a number or None, not nan")
            object.__setattr__(self, "bound", float(self.bound))
        if not isinstance(self.solver, str):
            raise TypeError(f"solver must be a string, not a {type(self.solver).__name__}")
        if not isinstance(self.notes, tuple) or not all(isinstance(note, str) for note in self.notes):
            raise TypeError("notes must be a tuple of strings")
        object.__setattr__(self, "counts", counts.astype(np.int64, copy=False))
        object.__setattr__(self, "status", Status(self.status))
