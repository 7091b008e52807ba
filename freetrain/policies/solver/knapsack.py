"""The exact dynamic programme for nodes of one class: one size per trainer, at most so many nodes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from freetrain.core.terms import Sizes
from freetrain.policies.solver.pricing import Priced


def best_sizes(priced: Priced, nodes: int) -> Sizes:
    """Sizes of largest total value among those that pricing left; proven optimal.

    ``best[m]`` is the largest value of the trainers seen so far on at most *m* nodes beyond the fewest they
    can have:  best'[m] = max over sizes n of V(n) + best[m − (n − fewest)].
    """
    if priced.proven:
        return priced.sizes
    options = [np.flatnonzero(row) for row in priced.worthwhile]
    fewest = np.array([sizes[0] for sizes in options], dtype=np.int64)
    spread = sum(int(sizes[-1] - sizes[0]) for sizes in options)
    spare = min(nodes - int(fewest.sum()), spread)
    open_rows = [row for row, sizes in enumerate(options) if len(sizes) > 1]
    best = np.zeros(spare + 1)
    chosen: list[NDArray[np.int64]] = []
    for row in open_rows:
        candidates = _shifted(best, priced.values[row], options[row])
        choice = np.argmax(candidates, axis=0)
        best = candidates[choice, np.arange(spare + 1)]
        chosen.append(options[row][choice])
    sizes = fewest.copy()
    for row, choice in zip(reversed(open_rows), reversed(chosen), strict=True):
        sizes[row] = choice[spare]
        spare -= int(sizes[row] - fewest[row])
    return sizes


def _shifted(
    best: NDArray[np.float64], values: NDArray[np.float64], options: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Value of each spare capacity by the option this trainer takes, shape (options, spare + 1)."""
    extra = options - options[0]
    out_of_reach = np.full(extra[-1], -np.inf)
    left = np.arange(len(best)) + extra[-1] - extra[:, None]
    candidates: NDArray[np.float64] = values[options][:, None] + np.concatenate([out_of_reach, best])[left]
    return candidates
