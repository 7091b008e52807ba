"""When running jobs are expected to be over, and how Slurm looks for the moment at which enough of them are."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import inf

from freetrain.core.amounts import Amount
from freetrain.lending.shadow.machine import Machine
from freetrain.lending.shadow.node_sets import NodeSet, numbers
from freetrain.lending.shadow.rooms_ahead import Hold

_WINDOW_S = 30.0
"""Slurm tries after all ends that lie so close together, and doubles this with each try."""


@dataclass(slots=True)
class _View:
    """The nodes with room for one part, after each end.

    Attributes:
        free: these nodes.
        begun: of how many of the jobs that have begun it knows.
    """

    free: list[NodeSet]
    begun: int


@dataclass(frozen=True, slots=True)
class _Begun:
    """A job that has begun."""

    nodes: NodeSet
    hold: Hold


class Running:
    """Nodes that running jobs leave free, from now on.

    Slurm does not try whether a job can start after each end of a running one, but after groups of them, so that a
    start is planned for the last end of a group (``src/plugins/select/cons_common/job_test.c`` of Slurm 22.05).

    A job wants all of each of its nodes, or a part. For each part that is asked about there is a view: the nodes
    that have room for it, after each end. Views hear of jobs that have begun when they are asked.

    Args:
        machine: the nodes.

    Attributes:
        idle: nodes that nobody had at first.
    """

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._ends_s = list(machine.ends_s)
        self._views: dict[Amount | None, _View] = {}
        self._begun: list[_Begun] = []
        self._on: dict[int, list[Hold]] = {}
        self._idle: dict[Amount | None, NodeSet] = {}
        self._free(None)

    @property
    def idle(self) -> NodeSet:
        """Nodes that nobody had at first."""
        return self.room_at_first(None)

    def room_at_first(self, part: Amount | None) -> NodeSet:
        """Nodes with room for a part, None: which nobody had, before any other job began."""
        self._free(part)
        return self._idle[part]

    def begin(self, nodes: NodeSet, end_s: float, part: Amount | None = None) -> None:
        """Let a job run there from now on until then, on all of these nodes or on a part of each."""
        behind = bisect_left(self._ends_s, end_s)
        if end_s < inf and (behind == len(self._ends_s) or self._ends_s[behind] != end_s):
            self._ends_s.insert(behind, end_s)
            for view in self._views.values():
                view.free.insert(behind, view.free[behind - 1])
        one = _Begun(nodes, Hold(end_s, part))
        self._begun.append(one)
        for number in numbers(nodes) if self._machine.in_parts else ():
            self._on.setdefault(number, []).append(one.hold)

    def free_at(self, moment_s: float, part: Amount | None = None) -> NodeSet:
        """Nodes with room for a part, None: that are free, then."""
        return self._free(part)[bisect_right(self._ends_s, moment_s) - 1]

    def left_at(self, nodes: NodeSet, moment_s: float, part: Amount) -> Mapping[str, Amount]:
        """Node → what is left of it then for others, once somebody has such a part of it."""
        ahead, names, left = self._machine.ahead, self._machine.sets.in_order(nodes), {}
        for name, number in zip(names, numbers(nodes), strict=True):
            room = ahead.room_at(number, moment_s).without(ahead.rounded(number, part))
            for one in self._on.get(number, ()):
                if one.end_s > moment_s:
                    room = Amount() if one.part is None else room.without(ahead.rounded(number, one.part))
            left[name] = room
        return left

    def free_s(self, nodes: NodeSet, count: int, part: Amount | None = None) -> float:
        """The end after which so many of these nodes are free; inf: not all of them ever become so."""
        free = self._free(part)
        enough = _end_leaving(free, nodes, count)
        return self._ends_s[enough] if enough < len(free) else inf

    def first_s(self, nodes: NodeSet, count: int, part: Amount | None = None) -> float:
        """When Slurm would plan a job that wants so many of these nodes; inf: not all of them ever become free."""
        free = self._free(part)
        enough = _end_leaving(free, nodes, count)
        if enough == 0:
            return self._ends_s[0]
        if enough == len(free):
            return inf
        last = self._last_of_group(free, nodes, enough)
        # Ends of jobs that have none of these nodes do not count.
        return self._ends_s[_end_leaving(free, nodes, (nodes & free[last]).bit_count())]

    def _free(self, part: Amount | None) -> list[NodeSet]:
        """The view of a part, after all that has begun."""
        if part not in self._views:
            free = self._machine.releases(part, self._ends_s)
            self._views[part] = _View(free, 0)
            self._idle[part] = free[0]
        view = self._views[part]
        if view.begun < len(self._begun):
            self._take_out(view.free, self._taken_until(part, self._begun[view.begun :]))
            view.begun = len(self._begun)
        return view.free

    def _taken_until(self, part: Amount | None, begun: Sequence[_Begun]) -> Mapping[float, NodeSet]:
        """Moments, with the nodes on which there is room for a part again from then on, after these have begun."""
        taken: defaultdict[float, NodeSet] = defaultdict(int)
        shared: NodeSet = 0
        for hold in begun:
            if part is None or hold.hold.part is None:
                taken[hold.hold.end_s] |= hold.nodes
            else:
                shared |= hold.nodes
        if part is not None:
            for number in numbers(shared):
                taken[self._machine.ahead.first_s(number, part, self._on[number])] |= 1 << number
        return taken

    def _take_out(self, free: list[NodeSet], taken: Mapping[float, NodeSet]) -> None:
        """Take nodes out of a view, each until its moment."""
        ordered = sorted(taken, reverse=True)
        out: NodeSet = 0
        for until_s, before_s in pairwise([*ordered, -inf]):
            out |= taken[until_s]
            first, behind = bisect_left(self._ends_s, before_s), bisect_left(self._ends_s, until_s)
            free[first:behind] = [task & ~out for task in free[first:behind]]

    def _last_of_group(self, free: list[NodeSet], nodes: NodeSet, enough: int) -> int:
        """The last end in the group of ends after which there are enough."""
        first_s = self._ends_s[_end_leaving(free, nodes, (nodes & free[0]).bit_count() + 1)]
        anchor_s, window_s = first_s + _WINDOW_S - first_s % _WINDOW_S, _WINDOW_S
        last = bisect_right(self._ends_s, anchor_s + window_s) - 1
        while last < enough:
            while self._ends_s[last + 1] > anchor_s + window_s:
                window_s *= 2
            last = bisect_right(self._ends_s, anchor_s + window_s) - 1
        return last


def _end_leaving(free: list[NodeSet], nodes: NodeSet, count: int) -> int:
    """The first end after which so many of these nodes are free, by its number; the last one's + 1: none."""
    return bisect_left(free, count, key=lambda each: (nodes & each).bit_count())
