"""From how many nodes in all to how many of each class, for policies that decide only the former."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from freetrain.core.problem import Counts, Problem
from freetrain.core.terms import Sizes
from freetrain.core.value import boots_in_time


def spread(problem: Problem, sizes: Sizes) -> Counts:
    """Nodes of each class for trainers of given sizes, shape (trainers, classes); nobody migrates.

    Who shrinks gives up its shortest-lived nodes; who grows takes the longest-lived left, those first whom an
    eviction would cost most, and none that leaves before it would have booted.
    """
    joins = boots_in_time(problem.terms, problem.classes)
    if len(problem.classes) == 1 and joins.all():
        return sizes[:, None].astype(np.int64)
    counts = problem.held.copy()
    change = sizes - problem.held_nodes
    for row in np.flatnonzero(change < 0).tolist():
        counts[row] -= _take(counts[row][::-1], int(-change[row]))[::-1]
    left = problem.capacity - counts.sum(axis=0)
    terms = problem.terms
    loss = terms.eviction_s * terms.worth[np.arange(len(sizes)), sizes]
    growing = np.flatnonzero(change > 0)
    for row in growing[np.argsort(-loss[growing], kind="stable")].tolist():
        taken = _take(left * joins[row], int(change[row]))
        left = left - taken
        counts[row] += taken
        if not terms.possible[row, counts[row].sum()]:  # too few boot in time for its minimum
            left = left + counts[row]
            counts[row] = 0
    return counts


def _take(available: NDArray[np.int64], nodes: int) -> NDArray[np.int64]:
    """Take nodes class by class, all of the first class before any of the second."""
    return np.diff(np.minimum(np.cumsum(available), nodes), prepend=0)
