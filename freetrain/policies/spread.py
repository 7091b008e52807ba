"""From how many nodes in all to how many of each class, for policies that decide only the former."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from freetrain.core.problem import Counts, Problem
from freetrain.core.terms import Sizes


def spread(problem: Problem, sizes: Sizes) -> Counts:
    """Nodes of each class for trainers of given sizes, shape (trainers, classes); nobody migrates.

    Who shrinks gives up its shortest-lived nodes; who grows takes the longest-lived left, those first
    whom an eviction would cost most.
    """
    if len(problem.classes) == 1:
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
        taken = _take(left, int(change[row]))
        counts[row] += taken
        left = left - taken
    return counts


def _take(available: NDArray[np.int64], nodes: int) -> NDArray[np.int64]:
    """Take nodes class by class, all of the first class before any of the second."""
    return np.diff(np.minimum(np.cumsum(available), nodes), prepend=0)
