"""DLTAP (ITM Web of Conferences 2017): placement of a trainer's nodes near each other, by a score of leaves.

The published score is that of nodes which other jobs use, too; of idle nodes it is the same everywhere. So here it
is that of leaves: a node is the better, the more of the trainer's other nodes are near it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from freetrain.core.decision import Placement, place
from freetrain.core.problem import Counts, Problem
from freetrain.core.topology import Topology, nodes_by_leaf
from freetrain.policies.stages import leaf_by_leaf, say_leaves

ScoreT = TypeVar("ScoreT", int, NDArray[np.int64])


def aggregation_score(peers_here: ScoreT, peers: int) -> ScoreT:
    """Score, 1 to 11, for how much of the task's traffic stays on the node, where as many of its peers are."""
    return 10 * peers_here // max(peers, 1) + 1


class Dltap:
    """Aggregation degree as DLTAP (ITM Web of Conferences 2017) scores it, of leaves instead of nodes.

    A trainer of whole nodes has one task on each of them, all of them peers: the published score of a node is
    the same everywhere. That of a leaf counts the peers that are on it or still can be.
    """

    def __init__(self, topology: Topology) -> None:
        self._topology = topology

    def place(self, problem: Problem, counts: Counts) -> Placement:
        """Trainers in order of admission, each node after node."""
        return place(problem, counts, self._choose)

    def explain(self, placement: Placement) -> Iterable[str]:
        """A sentence on trainers on several leaves."""
        return say_leaves(placement, self._topology)

    def rate_for_server(self, node: str, nodes: Sequence[str]) -> float:
        """The published score of a server for a leaf instead of a node: 1 to 11, by the workers that are on it.

        Of nodes that all have as many workers the published one, for nodes, is the same everywhere.
        """
        on_leaf = nodes_by_leaf(nodes, self._topology)[self._topology.leaf_of(node)]
        return aggregation_score(on_leaf, len(nodes))

    def _choose(self, there: Sequence[str], count: int, beside: Sequence[str]) -> Sequence[str]:
        tasks = len(beside) + count

        def rank(leaf: str, own: int, free: int, missing: int) -> tuple[int, int, int, str]:
            # The highest score first; then where most of its nodes are, the least room, and the name.
            return (-aggregation_score(own + min(free, missing), tasks), -own, free, leaf)

        return leaf_by_leaf(there, count, beside, self._topology, rank)
