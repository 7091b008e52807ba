"""Topology: the switches between the nodes, as far as a site names them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from freetrain.core.place import node_of

UNKNOWN_LEAF = ""
"""The leaf of every node of which no switch is known."""


@dataclass(frozen=True)
class Topology:
    """A tree of switches, or several trees; blocks of nodes are trees of a single switch or two.

    Attributes:
        leaves: node → the switch, or the block, that it is connected to.
        parents: switch → the switch above it; a root has none.

    Raises:
        ValueError: switches are above each other in a circle.
    """

    leaves: Mapping[str, str] = field(default_factory=dict)
    parents: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for switch in self.parents:
            self.way_up(switch)

    def leaf_of(self, node: str) -> str:
        """The switch that the node, or the node of the place, is connected to."""
        return self.leaves.get(node_of(node), UNKNOWN_LEAF)

    def way_up(self, switch: str) -> tuple[str, ...]:
        """The switch and all above it, the root last."""
        way = [switch]
        while (above := self.parents.get(way[-1])) is not None:
            if above in way:
                raise ValueError(f"switch {above} is above itself: {', '.join(way)}")
            way.append(above)
        return tuple(way)

    def distance(self, node: str, other: str) -> int:
        """Links on the way from one node to the other: 0 to itself, 2 within a leaf, 4 within two levels.

        Between trees, and to a node of no known switch, it is that over a root above all of them.
        """
        if node_of(node) == node_of(other):
            return 0
        here, there = self._ways_up[self.leaf_of(node)], self._ways_up[self.leaf_of(other)]
        for steps, switch in enumerate(here):
            if switch in there:
                return 2 + steps + there.index(switch)
        return 2 + len(here) + len(there)

    def rank_of_leaf(self, leaf: str) -> int:
        """Place of a leaf in a walk through the tree, in which the leaves of each switch follow each other."""
        return self._ranks.get(leaf, len(self._ranks))

    @cached_property
    def _ways_up(self) -> Mapping[str, tuple[str, ...]]:
        return {leaf: self.way_up(leaf) for leaf in {*self.leaves.values(), UNKNOWN_LEAF}}

    @cached_property
    def _ranks(self) -> Mapping[str, int]:
        # From the root down, so that the leaves of each switch follow each other.
        in_order = sorted(set(self.leaves.values()), key=lambda leaf: self._ways_up[leaf][::-1])
        return {leaf: rank for rank, leaf in enumerate(in_order)}


FLAT = Topology()
"""A topology without switches: all nodes count as connected to one."""


def ring_order(nodes: Iterable[str], topology: Topology) -> tuple[str, ...]:
    """The nodes such that a ring through them enters and leaves every leaf, and every switch above, once."""
    return tuple(sorted(nodes, key=lambda node: (topology.rank_of_leaf(topology.leaf_of(node)), node)))


def crossings(ring: Iterable[str], topology: Topology) -> int:
    """Links of the ring that lead from one leaf to another; two for each leaf at best, none within one."""
    leaves = [topology.leaf_of(node) for node in ring]
    # A ring is closed: the last node sends to the first.
    return sum(leaf != following for leaf, following in zip(leaves, leaves[1:] + leaves[:1], strict=True))


def nodes_by_leaf(nodes: Iterable[str], topology: Topology) -> Counter[str]:
    """Leaf → how many of the nodes are connected to it."""
    return Counter(map(topology.leaf_of, nodes))
