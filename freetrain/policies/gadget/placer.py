"""Ring placer: few leaves for each trainer, and ranks in the order of a ring that crosses each leaf once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from freetrain.core.placement import Placement, place
from freetrain.core.problem import Counts, Problem
from freetrain.core.topology import Topology, nodes_by_leaf, ring_order
from freetrain.policies.stages import say_leaves


class Ring:
    """Embeds each trainer's ring into the switches, in the method of GADGET (INFOCOM 2022).

    One leaf if one has room, the tightest that does; else as few as possible. Bandwidth is not reckoned with here:
    ``freetrain.policies.gadget.reserving`` does that.

    Args:
        topology: the switches.
    """

    def __init__(self, topology: Topology) -> None:
        self._topology = topology

    def place(self, problem: Problem, counts: Counts) -> Placement:
        """Few leaves for each trainer, its nodes in ring order."""
        placement = place(problem, counts, self._choose)
        return {trainer: ring_order(names, self._topology) for trainer, names in placement.items()}

    def explain(self, placement: Placement) -> Iterable[str]:
        """Who is on several leaves."""
        return say_leaves(placement, self._topology)

    def _choose(self, there: Sequence[str], count: int, beside: Sequence[str]) -> Sequence[str]:
        return few_leaves(there, count, beside, self._topology)


def few_leaves(there: Sequence[str], count: int, beside: Sequence[str], topology: Topology) -> Sequence[str]:
    """So many of the nodes that are there, on few leaves together with those that the ring has besides."""
    free: defaultdict[str, list[str]] = defaultdict(list)
    for name in there:
        free[topology.leaf_of(name)].append(name)
    own = nodes_by_leaf(beside, topology)
    chosen: list[str] = []
    while len(chosen) < count:
        missing = count - len(chosen)
        leaf = min(free, key=lambda leaf: _rank(own[leaf], len(free[leaf]), missing, leaf))
        chosen += free.pop(leaf)[:missing]
    return chosen


def _rank(own: int, free: int, missing: int, leaf: str) -> tuple[int, bool, int, str]:
    """First the leaves that the ring is on; then the tightest with room for the rest, else the roomiest."""
    return (-own, free < missing, free if free >= missing else -free, leaf)
