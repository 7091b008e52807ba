"""The jobs that are planned, and the first moment at which Slurm would plan another beside them.

:class:`Running` knows when running jobs leave their nodes, :class:`Reserved` what is planned for later, and
:class:`Schedule` searches both as Slurm does.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise
from math import inf
from operator import or_

from freetrain.core.amounts import Amount
from freetrain.core.cluster import Snapshot
from freetrain.core.job import Job
from freetrain.lending.shadow.machine import Hold, Machine
from freetrain.lending.shadow.node_sets import NodeSet, numbers

# Epoch seconds, as doubles, are exact to less than this; a smaller step would be lost in rounding.
_ROUNDING_S = 1e-3


class Reserved:
    """The nodes reserved by planned jobs, as stretches of time in each of which the same nodes are reserved.

    Attributes:
        steps: number of stretches that have been gone through, as a measure of the work.
    """

    def __init__(self) -> None:
        self._edges_s = [-inf, inf]
        self._nodes: list[NodeSet] = [0]
        self.steps = 0

    def add(self, begin_s: float, end_s: float, nodes: NodeSet) -> None:
        """Reserve the nodes from one moment to another."""
        first, behind = self._split(begin_s), self._split(end_s)
        self._nodes[first:behind] = [reserved | nodes for reserved in self._nodes[first:behind]]

    def _split(self, moment_s: float) -> int:
        """Let a stretch begin at this moment, and return its number."""
        number = bisect_left(self._edges_s, moment_s)
        if self._edges_s[number] != moment_s:
            self._edges_s.insert(number, moment_s)
            self._nodes.insert(number, self._nodes[number - 1])
        return number

    def between(self, begin_s: float, end_s: float) -> NodeSet:
        """Nodes reserved at some time of it, the last moment included: in Slurm no two plans may touch."""
        first, behind = bisect_right(self._edges_s, begin_s) - 1, bisect_right(self._edges_s, end_s)
        self.steps += behind - first
        return reduce(or_, self._nodes[first:behind])

    def first_leaving(
        self, nodes: NodeSet, count: int, from_s: float, ends_s: Sequence[float], free: Sequence[NodeSet]
    ) -> float:
        """The first stretch, from a moment on, that leaves so many of these nodes which are free at its end.

        ``free`` has the free nodes after each of ``ends_s``.

        Returns:
            Its beginning, or the moment if it has begun by then; inf: there is none.
        """
        first, end = bisect_right(self._edges_s, from_s) - 1, 0
        for number in range(first, len(self._nodes)):
            end = bisect_right(ends_s, self._edges_s[number + 1], end)
            if (nodes & free[end - 1] & ~self._nodes[number]).bit_count() >= count:
                self.steps += number - first + 1
                return max(from_s, self._edges_s[number])
        self.steps += len(self._nodes) - first
        return inf

    def changes_after(self, moment_s: float) -> float:
        """The next change of the reserved nodes after a moment; inf: there is none."""
        return self._edges_s[bisect_right(self._edges_s, moment_s)]

    def holds_until_s(self, moment_s: float, ahead_s: float) -> float:
        """Time until which ``between(moment, moment + ahead)`` stays the same as the moment moves on."""
        return min(self.changes_after(moment_s), self.changes_after(moment_s + ahead_s) - ahead_s - _ROUNDING_S)

    def last_change_before(self, moment_s: float) -> float:
        """The beginning of the stretch that contains the time just before a moment."""
        return self._edges_s[bisect_left(self._edges_s, moment_s) - 1]


# About 0.2 s of work at one look; the jobs that are left then have no plan.
_MOST_STEPS = 1_000_000


@dataclass(frozen=True, slots=True)
class BackfillRules:
    """Settings of Slurm's backfill scheduler.

    Attributes:
        interval_s: seconds from one plan to the next (``bf_interval``).
        resolution_s: times are rounded down to multiples of this (``bf_resolution``).
        window_s: seconds ahead for which it plans (``bf_window``).
        most_jobs: number of jobs that it looks at (``bf_max_job_test``).
    """

    interval_s: float = 30.0
    resolution_s: float = 60.0
    window_s: float = 86400.0
    most_jobs: int = 500


@dataclass(frozen=True, slots=True)
class Start:
    """A moment, and the nodes that are free then for long enough."""

    start_s: float
    nodes: NodeSet


JobShape = tuple[NodeSet, int, float, Amount | None]
"""Properties of a job that count in a search: nodes where it may run, their number, time limit, amount of each."""


class Schedule:
    """Jobs that have been planned so far, and the search for the next start.

    Attributes:
        not_before_s: shape of jobs → the stretch before which none of them starts.
        holds_until_s: time until which the last search finds the same if nothing but time changes; the caller sets
            it to inf before a search.
    """

    def __init__(self, machine: Machine, snapshot: Snapshot, rules: BackfillRules) -> None:
        self.now_s = snapshot.time_s
        self._machine = machine
        self._rules = rules
        self._running = Running(machine)
        self._reserved = Reserved()
        for reservation in snapshot.reservations:
            if reservation.end_s > self.now_s:
                self._reserved.add(reservation.start_s, reservation.end_s, machine.sets.of(reservation.nodes))
        self.not_before_s: dict[JobShape, float] = {}
        self.holds_until_s = inf

    def fits(self, shape: JobShape) -> bool:
        """Whether there are nodes for a job now, whatever else starts now."""
        possible, count, limit_s, part = shape
        possible &= self._running.room_at_first(part)
        if possible.bit_count() < count:
            return False
        self._holds_only_now(limit_s)
        taken = self._reserved.between(self.now_s, self.now_s + limit_s)
        return (possible & ~taken).bit_count() >= count

    def shape_of(self, job: Job) -> JobShape:
        """The shape of a job."""
        return self._machine.possible(job), job.node_count, self._machine.limit_s(job), job.asks

    def find_start(self, shape: JobShape) -> Start | None:
        """Time and nodes that Slurm would plan for a job; None: not within the window, or at the limit of work.

        Slurm tries one stretch of time after the other. In each, the usable nodes are those that no plan has
        reserved from its beginning for as long as the job may run; a start behind the stretch is left to a later
        one.
        """
        possible, count, limit_s, part = shape
        free_s = self._running.free_s(possible, count, part)
        if free_s == inf:
            return None
        # Plans are only added, so an equal job finds nothing before the stretch in which the last one started; and
        # no job starts in a stretch that is over before enough of its nodes are free.
        first_s = max(self.now_s, self.not_before_s.get(shape, self.now_s))
        from_s = max(first_s, self._reserved.last_change_before(free_s))
        if from_s > self.now_s:
            self._holds_before(from_s)
        else:
            self._holds_only_now(limit_s)
        last_s = self.now_s + self._rules.window_s
        ends_s, free = self._running.after_ends(part)
        # Most stretches are passed over, without a look at all that is reserved while the job may run.
        while (from_s := self._reserved.first_leaving(possible, count, from_s, ends_s, free)) <= last_s:
            # The stretch of a start now is always searched: only plans for later are given up.
            if from_s > self.now_s and self._reserved.steps > _MOST_STEPS:
                self._holds_before(self.now_s)
                return None
            found, from_s = self._start_in_stretch(shape, from_s)
            if found is not None:
                is_within = found.start_s <= last_s
                if found.start_s > self.now_s:
                    self._holds_before(found.start_s if is_within else found.start_s - self._rules.window_s)
                return found if is_within else None
        self._holds_before(from_s - self._rules.window_s)
        return None

    def _start_in_stretch(self, shape: JobShape, from_s: float) -> tuple[Start | None, float]:
        """A start in the stretch that begins here, or None and the moment from which to search on."""
        possible, count, limit_s, part = shape
        next_s = self._reserved.changes_after(from_s)
        usable = possible & ~self._reserved.between(from_s, from_s + limit_s)
        # If too few of them are free at the end of the stretch, the exact search is spared.
        is_later = (usable & self._running.free_at(next_s, part)).bit_count() < count
        start_s = inf if is_later else max(from_s, self._running.first_s(usable, count, part))
        if start_s == inf or start_s > next_s:
            return None, next_s
        self.not_before_s[shape] = from_s
        nodes = usable & self._running.free_at(start_s, part)
        # A start after the beginning of the stretch also ends later than what was checked.
        if start_s > from_s:
            nodes &= ~self._reserved.between(start_s, start_s + limit_s)
        return (Start(start_s, nodes) if nodes.bit_count() >= count else None), start_s

    def _holds_only_now(self, limit_s: float) -> None:
        # A result that depends on the nodes reserved from now on holds until other nodes are reserved.
        self._holds_before(self._reserved.holds_until_s(self.now_s, limit_s))

    def _holds_before(self, moment_s: float) -> None:
        self.holds_until_s = min(self.holds_until_s, moment_s)

    def beside(self, job: Job, start_s: float, nodes: NodeSet) -> Mapping[str, Amount]:
        """Node → amount left of it for others when the job starts on a part of it; empty if it takes all."""
        return {} if job.asks is None else self._running.left_at(nodes, start_s, job.asks)

    def plan(self, job: Job, start_s: float, nodes: NodeSet) -> None:
        """Give the nodes to the job from its start until the end of its time limit.

        A job that starts now has the part of each node that it wants; for a later start Slurm reserves whole
        nodes.
        """
        end_s = start_s + self._machine.limit_s(job)
        if start_s <= self.now_s:
            self._running.begin(nodes, end_s, job.asks)
            return
        step_s = self._rules.resolution_s
        # As in backfill.c, plans begin and end at multiples of the resolution, and last for one at least.
        begin_s = start_s // step_s * step_s
        self._reserved.add(begin_s, max(end_s // step_s * step_s, begin_s + step_s), nodes)


# Slurm tries a start after all ends within a window of this length, and doubles it with each try.
_WINDOW_S = 30.0


@dataclass(slots=True)
class _RoomView:
    """The nodes with room for one part, after each end.

    Attributes:
        at_first: the nodes that had room before any job started in the shadow.
        begun: number of the jobs that have started which it includes.
    """

    free: list[NodeSet]
    at_first: NodeSet
    begun: int = 0


_Begun = tuple[NodeSet, Hold]
"""The nodes of a job that starts now, and what it has of each."""


class Running:
    """Nodes that running jobs leave free, from now on.

    Slurm does not try a start after each end of a running job but after groups of them, so a start is planned for
    the last end of a group (``src/plugins/select/cons_common/job_test.c`` of Slurm 22.05).

    A job wants all of each of its nodes, or a part. For each part that is asked about there is a view: the nodes
    with room for it, after each end. Jobs that start now are added to a view when it is next asked.
    """

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._ends_s = list(machine.ends_s)
        self._views: dict[Amount | None, _RoomView] = {}
        self._begun: list[_Begun] = []
        self._on: dict[int, list[Hold]] = {}
        self._free(None)

    def room_at_first(self, part: Amount | None) -> NodeSet:
        """Nodes with room for a part before any job started in the shadow; part None: nodes that were free."""
        self._free(part)
        return self._views[part].at_first

    def begin(self, nodes: NodeSet, end_s: float, part: Amount | None = None) -> None:
        """Let a job run from now until its end, on all of these nodes or on a part of each."""
        behind = bisect_left(self._ends_s, end_s)
        if end_s < inf and (behind == len(self._ends_s) or self._ends_s[behind] != end_s):
            self._ends_s.insert(behind, end_s)
            for view in self._views.values():
                view.free.insert(behind, view.free[behind - 1])
        hold = Hold(end_s, part)
        self._begun.append((nodes, hold))
        for number in numbers(nodes) if self._machine.in_parts else ():
            self._on.setdefault(number, []).append(hold)

    def after_ends(self, part: Amount | None) -> tuple[Sequence[float], Sequence[NodeSet]]:
        """All ends, and the nodes with room for a part after each; part None: nodes that are free then."""
        return self._ends_s, self._free(part)

    def free_at(self, moment_s: float, part: Amount | None = None) -> NodeSet:
        """Nodes with room for a part at a moment; part None: nodes that are free then."""
        return self._free(part)[bisect_right(self._ends_s, moment_s) - 1]

    def left_at(self, nodes: NodeSet, moment_s: float, part: Amount) -> Mapping[str, Amount]:
        """Node → amount left of it at a moment, once a job has such a part of it."""
        ahead, names, left = self._machine.ahead, self._machine.sets.in_order(nodes), {}
        for name, number in zip(names, numbers(nodes), strict=True):
            left[name] = ahead.left_at(number, moment_s, part, self._on.get(number, ())) or Amount()
        return left

    def free_s(self, nodes: NodeSet, count: int, part: Amount | None) -> float:
        """The end after which so many of these nodes are free; inf: never."""
        free = self._free(part)
        enough = _end_leaving(free, nodes, count)
        return self._ends_s[enough] if enough < len(free) else inf

    def first_s(self, nodes: NodeSet, count: int, part: Amount | None = None) -> float:
        """Time for which Slurm would plan a job that wants so many of these nodes; inf: never."""
        free = self._free(part)
        enough = _end_leaving(free, nodes, count)
        if enough == 0:
            return self._ends_s[0]
        if enough == len(free):
            return inf
        last = self._last_of_group(free, nodes, enough)
        # The start is planned for an end that frees some of these nodes.
        return self._ends_s[_end_leaving(free, nodes, (nodes & free[last]).bit_count())]

    def _free(self, part: Amount | None) -> list[NodeSet]:
        if part not in self._views:
            free = self._machine.releases(part, self._ends_s)
            self._views[part] = _RoomView(free, at_first=free[0])
        view = self._views[part]
        if view.begun < len(self._begun):
            self._take_out(view.free, self._taken_until(part, self._begun[view.begun :]))
            view.begun = len(self._begun)
        return view.free

    def _taken_until(self, part: Amount | None, begun: Sequence[_Begun]) -> Mapping[float, NodeSet]:
        """Moment → the nodes that have room for a part again from then on, after these jobs have started."""
        taken: defaultdict[float, NodeSet] = defaultdict(int)
        shared: NodeSet = 0
        for nodes, hold in begun:
            if part is None or hold.part is None:
                taken[hold.end_s] |= nodes
            else:
                shared |= nodes
        if part is not None:
            for number in numbers(shared):
                taken[self._machine.ahead.first_s(number, part, self._on[number])] |= 1 << number
        return taken

    def _take_out(self, free: list[NodeSet], taken: Mapping[float, NodeSet]) -> None:
        ordered = sorted(taken, reverse=True)
        out: NodeSet = 0
        for until_s, before_s in pairwise([*ordered, -inf]):
            out |= taken[until_s]
            first, behind = bisect_left(self._ends_s, before_s), bisect_left(self._ends_s, until_s)
            free[first:behind] = [nodes & ~out for nodes in free[first:behind]]

    def _last_of_group(self, free: list[NodeSet], nodes: NodeSet, enough: int) -> int:
        """The last end of the group of ends after which enough nodes are free."""
        first_s = self._ends_s[_end_leaving(free, nodes, (nodes & free[0]).bit_count() + 1)]
        # Slurm rounds the first end up to a whole window, and doubles the window until another end lies within it.
        anchor_s, window_s = first_s + _WINDOW_S - first_s % _WINDOW_S, _WINDOW_S
        last = bisect_right(self._ends_s, anchor_s + window_s) - 1
        while last < enough:
            while self._ends_s[last + 1] > anchor_s + window_s:
                window_s *= 2
            last = bisect_right(self._ends_s, anchor_s + window_s) - 1
        return last


def _end_leaving(free: list[NodeSet], nodes: NodeSet, count: int) -> int:
    """The number of the first end after which so many of these nodes are free; one past the last: none."""
    return bisect_left(free, count, key=lambda leaving: (nodes & leaving).bit_count())
