"""Nodes that are reserved for somebody, from moment to moment."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from functools import reduce
from math import inf
from operator import or_

from freetrain.lending.shadow.node_sets import NodeSet

_ROUNDING_S = 1e-3
"""Differences of moments, in seconds of the epoch, are exact to less than this."""


class Reserved:
    """Who has been planned for later, as stretches of time in each of which the same nodes are reserved.

    Attributes:
        steps: how many stretches have been gone through, as a measure of the work.
    """

    def __init__(self) -> None:
        self._begins_s = [-inf]
        self._nodes: list[NodeSet] = [0]
        self.steps = 0

    def add(self, begin_s: float, end_s: float, nodes: NodeSet) -> None:
        """Reserve the nodes from one moment to another."""
        first, behind = self._split(begin_s), self._split(end_s)
        self._nodes[first:behind] = [reserved | nodes for reserved in self._nodes[first:behind]]

    def _split(self, moment_s: float) -> int:
        """Let a stretch begin then; its number."""
        number = bisect_left(self._begins_s, moment_s)
        is_new = number == len(self._begins_s) or self._begins_s[number] != moment_s
        if is_new and moment_s < inf:
            self._begins_s.insert(number, moment_s)
            self._nodes.insert(number, self._nodes[number - 1])
        return number

    def between(self, begin_s: float, end_s: float) -> NodeSet:
        """Nodes that are reserved at some time of it, its last moment included: Slurm allows no two to touch."""
        first, behind = bisect_right(self._begins_s, begin_s) - 1, bisect_right(self._begins_s, end_s)
        self.steps += behind - first
        return reduce(or_, self._nodes[first:behind])

    def changes_after(self, moment_s: float) -> float:
        """When other nodes are reserved than at that moment; inf: never."""
        number = bisect_right(self._begins_s, moment_s)
        return self._begins_s[number] if number < len(self._begins_s) else inf

    def holds_until_s(self, moment_s: float, ahead_s: float) -> float:
        """Until when a moment goes on in which the same nodes are reserved from it until so much later."""
        return min(self.changes_after(moment_s), self.changes_after(moment_s + ahead_s) - ahead_s - _ROUNDING_S)

    def last_change_before(self, moment_s: float) -> float:
        """When the stretch began that ends then or later."""
        return self._begins_s[bisect_left(self._begins_s, moment_s) - 1]
