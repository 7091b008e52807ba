"""Equal share: every trainer the same number of nodes, as far as its limits and the nodes allow."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from freetrain.core.decision import Allocation
from freetrain.core.problem import Problem
from freetrain.core.terms import Sizes
from freetrain.policies.aiming import HEEDED, AimedSizes, asked_of
from freetrain.policies.spread import spread_as_decided


class EqualShare:
    """The fair baseline that an optimiser has to beat.

    Minimum sizes are served first, the smallest first and then in order of admission; then all are raised
    to one level. What is left of the last round stays with those that have one more already, so that no trainer
    is rescaled for fairness's sake alone.

    Where deadlines count F times more, those whose deadlines ask for nodes have 1 + F times the level until they
    have these, and come first in both.
    """

    heeds = HEEDED

    def decide(self, problem: Problem) -> Allocation:
        """Equal sizes, longest-lived nodes first to the trainers to which an eviction would cost most."""
        counts = problem.held
        if counts.size:
            asked, nodes, held = asked_of(problem), problem.node_count, problem.held_nodes
            counts = spread_as_decided(problem, lambda reach: equal_sizes(asked, nodes, held, reach), evenly=True)
        return Allocation(counts, "equal-share")


def equal_sizes(
    asked: AimedSizes, nodes: int, held_nodes: Sizes | None = None, reach: Sizes | None = None
) -> Sizes:
    """Equal sizes on so many nodes, shape (trainers,)."""
    min_nodes = asked.min_nodes
    max_nodes = asked.max_nodes if reach is None else np.minimum(asked.max_nodes, reach)
    sizes = np.zeros(len(min_nodes), dtype=np.int64)
    left = nodes
    for row in np.lexsort((min_nodes, asked.needed == 0)):
        if min_nodes[row] <= min(left, max_nodes[row]):
            sizes[row] = min_nodes[row]
            left -= int(min_nodes[row])
    held_nodes = np.zeros_like(sizes) if held_nodes is None else held_nodes
    return _level(sizes, replace(asked, max_nodes=np.where(sizes > 0, max_nodes, 0)), held_nodes, left)


def _level(sizes: Sizes, asked: AimedSizes, held_nodes: Sizes, left: int) -> Sizes:
    # The highest level that the nodes allow, by bisection: what it takes only grows with it.
    low, high = 0, int(asked.max_nodes.max(initial=0))
    while low < high:
        share = (low + high + 1) // 2
        if int((_at_level(sizes, asked, share) - sizes).sum()) <= left:
            low = share
        else:
            high = share - 1
    levelled = _at_level(sizes, asked, low)
    left -= int((levelled - sizes).sum())
    lacks = _at_level(sizes, asked, low + 1) - levelled
    # lexsort's last key counts first: needs of deadlines, then those that have one node more already.
    order = np.lexsort((held_nodes <= low, asked.needed <= levelled))
    # Differences of a cut running sum: each in turn gets what it lacks until nothing is left.
    levelled[order] += np.diff(np.minimum(np.cumsum(lacks[order]), left), prepend=0)
    return levelled


def _at_level(sizes: Sizes, asked: AimedSizes, level: int) -> Sizes:
    """Sizes at a level: each has that many nodes, as far as it can, and no fewer than before."""
    wanted = np.maximum(level, np.minimum(asked.needed, int((1 + asked.factor) * level)))
    raised: Sizes = np.clip(wanted, sizes, np.maximum(asked.max_nodes, sizes))
    return raised
