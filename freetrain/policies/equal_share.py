"""Equal share: every trainer the same number of nodes, as far as its limits and the nodes allow."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from freetrain.core.allocation import Allocation
from freetrain.core.problem import Problem
from freetrain.core.terms import Sizes
from freetrain.core.trainer import Trainer
from freetrain.policies.spread import spread_as_decided


class EqualShare:
    """The fair baseline that an optimiser has to beat.

    Minimum sizes are served first, the smallest first and then in order of admission; then all are raised
    to one level. What is left of the last round stays with those that have one more already, so that nobody
    is rescaled for fairness's sake alone.
    """

    def decide(self, problem: Problem) -> Allocation:
        """Equal sizes, longest-lived nodes first to whom an eviction would cost most."""
        counts = problem.held
        if counts.size:
            counts = spread_as_decided(problem, lambda most: _equal_sizes(problem, most), evenly=True)
        return Allocation(counts, "equal-share")


def _equal_sizes(problem: Problem, reach: Sizes) -> Sizes:
    return equal_sizes(problem.trainers, problem.node_count, problem.held_nodes, reach)


def equal_sizes(
    trainers: Sequence[Trainer], nodes: int, held_nodes: Sizes | None = None, reach: Sizes | None = None
) -> Sizes:
    """Size of each trainer on so many nodes, shape (trainers,).

    Args:
        trainers: which.
        nodes: how many there are.
        held_nodes: what the trainers have now; None: nothing.
        reach: how many nodes each can get at most; None: all.
    """
    fewest = np.array([trainer.min_nodes for trainer in trainers], dtype=np.int64)
    most = np.array([trainer.most_nodes if trainer.can_run else 0 for trainer in trainers], dtype=np.int64)
    most = most if reach is None else np.minimum(most, reach)
    sizes = np.zeros(len(fewest), dtype=np.int64)
    left = nodes
    for row in np.argsort(fewest, kind="stable"):
        if fewest[row] <= min(left, most[row]):
            sizes[row] = fewest[row]
            left -= int(fewest[row])
    held_nodes = np.zeros_like(sizes) if held_nodes is None else held_nodes
    return _level(sizes, np.where(sizes > 0, most, 0), held_nodes, left)


def _level(sizes: Sizes, most: Sizes, held_nodes: Sizes, left: int) -> Sizes:
    """Raise the smallest sizes together while nodes are left."""
    low, high = 0, int(most.max(initial=0))
    while low < high:
        share = (low + high + 1) // 2
        if int((np.clip(share, sizes, np.maximum(most, sizes)) - sizes).sum()) <= left:
            low = share
        else:
            high = share - 1
    levelled: Sizes = np.clip(low, sizes, np.maximum(most, sizes))
    left -= int((levelled - sizes).sum())
    could_grow = np.flatnonzero((levelled == low) & (levelled < most))
    larger_before_first = could_grow[np.argsort(held_nodes[could_grow] <= low, kind="stable")]
    levelled[larger_before_first[:left]] += 1
    return levelled
