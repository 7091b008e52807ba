"""When running jobs are expected to be over, and how Slurm looks for the moment at which enough of them are."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from math import inf

from freetrain.lending.shadow.machine import Machine
from freetrain.lending.shadow.node_sets import NodeSet

_WINDOW_S = 30.0
"""Slurm tries after all ends that lie so close together, and doubles this with each try."""


class Running:
    """Nodes that running jobs leave free, from now on.

    Slurm does not try whether a job can start after each end of a running one, but after groups of them, so that a
    start is planned for the last end of a group (``src/plugins/select/cons_common/job_test.c`` of Slurm 22.05).

    Args:
        machine: the nodes.

    Attributes:
        idle: nodes that were free at first.
    """

    def __init__(self, machine: Machine) -> None:
        self._ends_s, self._free = machine.releases()
        self.idle = self._free[0]

    def begin(self, nodes: NodeSet, end_s: float) -> None:
        """Let a job run there from now on until then."""
        behind = bisect_left(self._ends_s, end_s)
        if end_s < inf and (behind == len(self._ends_s) or self._ends_s[behind] != end_s):
            self._ends_s.insert(behind, end_s)
            self._free.insert(behind, self._free[behind - 1])
        self._free[:behind] = [free & ~nodes for free in self._free[:behind]]

    def free_at(self, moment_s: float) -> NodeSet:
        """Nodes that are free then."""
        return self._free[bisect_right(self._ends_s, moment_s) - 1]

    def first_s(self, nodes: NodeSet, count: int) -> float:
        """When Slurm would plan a job that wants so many of these nodes; inf: not all of them ever become free."""
        enough = self._end_leaving(nodes, count)
        if enough == 0:
            return self._ends_s[0]
        if enough == len(self._free):
            return inf
        last = self._last_of_group(nodes, enough)
        # Ends of jobs that have none of these nodes do not count.
        return self._ends_s[self._end_leaving(nodes, (nodes & self._free[last]).bit_count())]

    def _end_leaving(self, nodes: NodeSet, count: int) -> int:
        """The first end after which so many of these nodes are free, by its number; the last one's + 1: none."""
        return bisect_left(self._free, count, key=lambda free: (nodes & free).bit_count())

    def _last_of_group(self, nodes: NodeSet, enough: int) -> int:
        """The last end in the group of ends after which there are enough."""
        first_s = self._ends_s[self._end_leaving(nodes, (nodes & self._free[0]).bit_count() + 1)]
        anchor_s, window_s = first_s + _WINDOW_S - first_s % _WINDOW_S, _WINDOW_S
        last = bisect_right(self._ends_s, anchor_s + window_s) - 1
        while last < enough:
            while self._ends_s[last + 1] > anchor_s + window_s:
                window_s *= 2
            last = bisect_right(self._ends_s, anchor_s + window_s) - 1
        return last
