"""DLTAP's placer for whole nodes: a node is the better, the more of the trainer's other nodes are near it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from freetrain.core.placement import Placement, place
from freetrain.core.problem import Counts, Problem
from freetrain.core.topology import Topology, nodes_by_leaf
from freetrain.policies.dltap.tasks import aggregation_score
from freetrain.policies.stages import say_leaves


class Dltap:
    """Aggregation degree as DLTAP (ITM Web of Conferences 2017) scores it, of leaves instead of nodes.

    A trainer of whole nodes has one task on each of them, all of them peers: the published score of a node is
    the same everywhere. That of a leaf counts the peers that are on it or still can be.

    Args:
        topology: the switches.
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
        free: defaultdict[str, list[str]] = defaultdict(list)
        for name in there:
            free[self._topology.leaf_of(name)].append(name)
        own, tasks, chosen = nodes_by_leaf(beside, self._topology), len(beside) + count, list[str]()
        while len(chosen) < count:
            missing = count - len(chosen)
            leaf = min(free, key=lambda leaf: _rank(own[leaf], len(free[leaf]), missing, tasks, leaf))
            taken = free.pop(leaf)[:missing]
            chosen += taken
            own[leaf] += len(taken)
        return chosen


def _rank(own: int, free: int, missing: int, tasks: int, leaf: str) -> tuple[int, int, int, str]:
    """The highest score first; then where most of its nodes are, the least room, and the name."""
    return (-aggregation_score(own + min(free, missing), tasks), -own, free, leaf)
