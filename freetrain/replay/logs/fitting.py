"""Room for tasks beside jobs: how many of one kind would have fit on partly used nodes, and for how long."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

_Numbers = NDArray[np.float64]
_WHOLE = 1e-6
"""Sums of jobs spread over several nodes are not exact."""


def times_that_fit(parts: Iterable[tuple[_Numbers, float, float]], shape: int) -> NDArray[np.int64]:
    """How many tasks fit at once, the scarcest of what they ask for deciding, shape (shape,).

    Args:
        parts: of each resource that a task asks for: what is free of it, with nan where that is unknown, what is
            kept back of each node, and what a task takes.
        shape: how many numbers there are.
    """
    fits = np.full(shape, np.inf)
    for free, kept, each in parts:
        fits = np.minimum(fits, np.floor((np.nan_to_num(free) - kept) / each + _WHOLE))
    return np.where(np.isfinite(fits), fits, 0.0).clip(min=0.0).astype(np.int64)


def lasting_place_s(fits: NDArray[np.int64], lasts_s: _Numbers, shortest_s: float) -> _Numbers:
    """Of each stretch of time the seconds × places that are there for so long at least, shape (stretches,).

    Places are told apart by number: the third one is there as long as three tasks fit without a break.

    Args:
        fits: how many tasks fit, 0 between the stretches of one node and those of the next.
        lasts_s: how long each stretch lasts, one after the other.
        shortest_s: for how long a place must be there to count.
    """
    counted = np.zeros(len(fits))
    for number in range(1, int(fits.max(initial=0)) + 1):
        there = fits >= number
        begins = there & ~np.concatenate([[False], there[:-1]])
        run = np.cumsum(begins) - 1
        length_s = np.bincount(run[there], lasts_s[there])
        rows = np.flatnonzero(there)
        rows = rows[length_s[run[rows]] >= shortest_s]
        counted[rows] += lasts_s[rows]
    return counted
