"""Who has been planned for when; the first moment at which a job can start beside them."""

from __future__ import annotations

import heapq
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from freetrain.core.cluster import Job, Reservation, Snapshot
from freetrain.lending.shadow.machine import Machine
from freetrain.lending.shadow.node_sets import NodeSet

_MOST_VISITS = 500_000
"""So many comparisons of a job with a plan may be made, about 0.2 s; jobs that are left then have no plan."""


@dataclass(frozen=True, slots=True)
class BackfillRules:
    """How Slurm plans.

    Attributes:
        interval_s: how often it plans (``bf_interval``).
        resolution_s: times are rounded down to multiples of this (``bf_resolution``).
        window_s: how far ahead it plans (``bf_window``).
        most_jobs: how many jobs it looks at (``bf_max_job_test``).
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


@dataclass(frozen=True, slots=True)
class _Plan:
    """Nodes that a job or a reservation has from a moment to another."""

    begin_s: float
    end_s: float
    nodes: NodeSet


class Schedule:
    """What has been planned so far.

    Args:
        machine: the nodes.
        snapshot: what there is.
        rules: how Slurm plans.

    Attributes:
        now_s: the snapshot's time.
    """

    def __init__(self, machine: Machine, snapshot: Snapshot, rules: BackfillRules) -> None:
        self.now_s = snapshot.time_s
        self._machine = machine
        self._rules = rules
        self._starting: list[_Plan] = []
        self._starting_nodes = 0
        self._later = [self._reserved(one) for one in snapshot.reservations if one.end_s > self.now_s]
        self._release_s, self._free = machine.releases()
        self._not_before_s: dict[tuple[NodeSet, int, float], float] = {}
        self._visits = 0

    def fits(self, job: Job) -> bool:
        """Whether there are nodes for it now, but for what else starts now."""
        possible = self._machine.possible(job) & self._free[0]
        if possible.bit_count() < job.node_count:
            return False
        taken = self._taken_of(self._later, self.now_s, self.now_s + self._machine.limit_s(job))
        return (possible & ~taken).bit_count() >= job.node_count

    def find_start(self, job: Job) -> Start | None:
        """The first moment at which it can start; None: not within the window, or not looked for any more."""
        possible, count, limit_s = self._machine.possible(job), job.node_count, self._machine.limit_s(job)
        enough = bisect_left(self._free, count, key=lambda free: (possible & free).bit_count())
        if enough == len(self._free):
            return None
        # Plans are only added, so that an equal job cannot start before the one that came first.
        shape = (possible, count, limit_s)
        first_s = max(self._release_s[enough], self._not_before_s.get(shape, 0.0))
        for start_s in self._candidates(first_s):
            if start_s > self.now_s + self._rules.window_s:
                return None
            nodes = possible & self._free_at(start_s) & ~self._taken(start_s, start_s + limit_s)
            if nodes.bit_count() >= count:
                self._not_before_s[shape] = start_s
                return Start(start_s, nodes)
            if start_s > self.now_s and self._visits > _MOST_VISITS:
                return None
        return None

    def plan(self, job: Job, start_s: float, nodes: NodeSet) -> None:
        """From now on the nodes are the job's from then until its limit ends."""
        step_s = self._rules.resolution_s
        begin_s = start_s // step_s * step_s
        end_s = max((start_s + self._machine.limit_s(job)) // step_s * step_s, begin_s + step_s)
        if start_s > self.now_s:
            self._later.append(_Plan(begin_s, end_s, nodes))
        else:
            self._starting.append(_Plan(begin_s, end_s, nodes))
            self._starting_nodes |= nodes

    @property
    def _plans(self) -> list[_Plan]:
        return self._starting + self._later

    def _reserved(self, reservation: Reservation) -> _Plan:
        return _Plan(reservation.start_s, reservation.end_s, self._machine.sets.of(reservation.nodes))

    def _free_at(self, time_s: float) -> NodeSet:
        return self._free[bisect_right(self._release_s, time_s) - 1]

    def _candidates(self, first_s: float) -> Iterator[float]:
        """Moments from this one on at which nodes become free."""
        plans_s = sorted({one.end_s for one in self._plans if one.end_s > first_s})
        running_s = self._release_s[bisect_right(self._release_s, first_s) :]
        return heapq.merge([first_s], plans_s, running_s)

    def _taken(self, begin_s: float, end_s: float) -> NodeSet:
        """Nodes that are planned for others then."""
        if begin_s <= self.now_s:
            return self._starting_nodes | self._taken_of(self._later, begin_s, end_s)
        return self._taken_of(self._plans, begin_s, end_s)

    def _taken_of(self, plans: Sequence[_Plan], begin_s: float, end_s: float) -> NodeSet:
        """Those of these plans; Slurm lets no job end in the step in which a plan begins."""
        self._visits += len(plans)
        taken = 0
        for plan in plans:
            if plan.begin_s <= end_s and plan.end_s > begin_s:
                taken |= plan.nodes
        return taken
