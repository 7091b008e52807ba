"""Nodes that are reserved for somebody, from moment to moment."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from math import inf

from freetrain.lending.shadow.node_sets import NodeSet


class Reserved:
    """Who has been planned for later, as stretches of time in each of which the same nodes are reserved.

    Attributes:
        steps: how many stretches have been gone through, as a measure of the work.
    """

    def __init__(self) -> None:
        self._begins_s = [-inf]
        self._nodes: dict[float, NodeSet] = {-inf: 0}
        self.steps = 0

    def add(self, begin_s: float, end_s: float, nodes: NodeSet) -> None:
        """Reserve the nodes from one moment to another."""
        for moment_s in (begin_s, end_s):
            if moment_s not in self._nodes and moment_s < inf:
                self._nodes[moment_s] = self._nodes[self._begins_s[bisect_right(self._begins_s, moment_s) - 1]]
                insort(self._begins_s, moment_s)
        first, behind = bisect_left(self._begins_s, begin_s), bisect_left(self._begins_s, end_s)
        for stretch_s in self._begins_s[first:behind]:
            self._nodes[stretch_s] |= nodes

    def between(self, begin_s: float, end_s: float) -> NodeSet:
        """Nodes that are reserved at some time of it, its last moment included: Slurm allows no two to touch."""
        first, behind = bisect_right(self._begins_s, begin_s) - 1, bisect_right(self._begins_s, end_s)
        self.steps += behind - first
        nodes = 0
        for stretch_s in self._begins_s[first:behind]:
            nodes |= self._nodes[stretch_s]
        return nodes

    def changes_after(self, moment_s: float) -> float:
        """When other nodes are reserved than at that moment; inf: never."""
        number = bisect_right(self._begins_s, moment_s)
        return self._begins_s[number] if number < len(self._begins_s) else inf
