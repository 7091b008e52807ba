"""From how many nodes in all to how many of each class, for policies that decide only the former."""

from __future__ import annotations

import numpy as np

from freetrain.core.objectives import worth_per_s
from freetrain.core.supply import Counts, Supply
from freetrain.policies.solver.pricing import Sizes


def spread(supply: Supply, sizes: Sizes) -> Counts:
    """Nodes of each class for trainers of given sizes, shape (trainers, classes); nobody migrates.

    Who shrinks gives up its shortest-lived nodes; who grows takes the longest-lived left, those first
    whom an eviction would cost most.
    """
    if len(supply.classes) == 1:
        return sizes[:, None].astype(np.int64)
    counts = supply.held.copy()
    change = sizes - counts.sum(axis=1)
    for row in np.flatnonzero(change < 0).tolist():
        counts[row] -= _take(counts[row][::-1], int(-change[row]))[::-1]
    left = supply.capacity - counts.sum(axis=0)
    growing = np.flatnonzero(change > 0).tolist()
    for row in sorted(growing, key=lambda row: -_eviction_loss(supply, row, int(sizes[row]))):
        taken = _take(left, int(change[row]))
        counts[row] += taken
        left = left - taken
    return counts


def _take(available: Counts, nodes: int) -> Counts:
    """Take nodes class by class, all of the first class before any of the second."""
    return np.diff(np.minimum(np.cumsum(available), nodes), prepend=0)


def _eviction_loss(supply: Supply, row: int, size: int) -> float:
    trainer = supply.problem.trainers[row]
    return trainer.eviction_s * float(worth_per_s(trainer, supply.problem.objective)[size])
