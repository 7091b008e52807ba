"""The shadow schedule: what Slurm would do with the site's waiting jobs if no fragment existed. Pure.

It follows Slurm's backfill scheduler (``src/plugins/sched/backfill/backfill.c`` of Slurm 22.05): jobs are looked
at in the order of their partitions' tiers and their own priorities, and each one is started at once where that
delays no job before it, or else planned for the first moment at which it can start. Running jobs end at their
limits. What Slurm's main scheduler starts is part of this: it leaves a partition alone behind the first job that
cannot start there.
"""

from __future__ import annotations

import heapq
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf

from freetrain.core.cluster import Job, JobState, Nodes, Partition, Reservation, Snapshot
from freetrain.core.needs import meets_constraint

_READY_REASONS = frozenset({"None", "", "Priority", "Resources", "Prolog", "ReqNodeNotAvail", "Reserved"})
"""Reasons of a job that starts as soon as there are nodes; with any other it waits for something else."""

_NO_NEW_JOBS = frozenset({"DRAIN", "FAIL", "NOT_RESPONDING", "REBOOT_REQUESTED", "REBOOT_ISSUED", "POWER_DOWN"})
"""Flags of nodes that no job starts on."""

_UNLIMITED_S = 365 * 86400.0
"""What Slurm takes for the limit of a job that has none."""

_MOST_JOBS = 1000
"""Who stands further back in the queue does not start at once, however many jobs Slurm looks at."""

_MOST_LATER_TASKS = 20
"""Slurm plans no more tasks of one array (its default of ``bf_max_job_array_resv``)."""

_MOST_VISITS = 500_000
"""So many comparisons of a job with a plan may be made, about 0.2 s; jobs that are left then have no plan."""


@dataclass(frozen=True, slots=True)
class BackfillRules:
    """How Slurm plans.

    Attributes:
        resolution_s: times are rounded down to multiples of this (``bf_resolution``).
        window_s: how far ahead it plans (``bf_window``).
        most_jobs: how many jobs it looks at (``bf_max_job_test``).
    """

    resolution_s: float = 60.0
    window_s: float = 86400.0
    most_jobs: int = 500


@dataclass(frozen=True, slots=True)
class PlannedStart:
    """When a job starts, and where."""

    job: str
    start_s: float
    nodes: Nodes


@dataclass(frozen=True)
class Shadow:
    """The answer.

    Attributes:
        time_s: now.
        plans: who starts now, and later, in Slurm's order; those tasks of an array together that start together.
        fitting: jobs for which there are nodes now that no job before them waits for, whoever starts on them now.
    """

    time_s: float
    plans: tuple[PlannedStart, ...]
    fitting: frozenset[str]

    @cached_property
    def kept(self) -> Mapping[str, str]:
        """Node → the job that would start there now."""
        return {name: plan.job for plan in self.plans if plan.start_s <= self.time_s for name in plan.nodes}

    @cached_property
    def wanted(self) -> Mapping[str, PlannedStart]:
        """Node → who starts there first of those that cannot start now."""
        later = sorted(
            (plan for plan in self.plans if plan.start_s > self.time_s),
            key=lambda plan: plan.start_s,
            reverse=True,
        )
        return {name: plan for plan in later for name in plan.nodes}


def find_shadow(
    snapshot: Snapshot,
    partition: str,
    fragments: frozenset[str],
    lent: Mapping[str, str],
    rules: BackfillRules,
    disbelieved: frozenset[str] = frozenset(),
) -> Shadow:
    """What would happen to the site's jobs.

    1. Waiting jobs are taken in Slurm's order.
    2. One that can start now gets nodes: those that nobody has first, then lent ones, one after the other from the
       trainers that have most.
    3. Any other is planned for the first moment at which enough nodes are free for as long as its limit; where
       Slurm has planned it, on Slurm's nodes.

    Args:
        snapshot: what there is.
        partition: freetrain's own; who waits in no other is none of the site's jobs.
        fragments: jobs that do not exist in the shadow.
        lent: node → the trainer that has it.
        rules: how Slurm plans.
        disbelieved: jobs that did not start although their nodes were free: they wait for something that is not
            known here, and get no nodes.
    """
    machine = _Machine(snapshot, fragments, lent)
    schedule = _Schedule(machine, snapshot, rules)
    plans: list[PlannedStart] = []
    fitting: set[str] = set()
    for job in _in_order(snapshot, partition)[: min(rules.most_jobs, _MOST_JOBS)]:
        if schedule.fits(job):
            fitting.add(job.id)
        if job.id not in disbelieved:
            plans += _starts_of(job, machine, schedule, lent)
    return Shadow(snapshot.time_s, tuple(plans), frozenset(fitting))


def _starts_of(
    job: Job, machine: _Machine, schedule: _Schedule, lent: Mapping[str, str]
) -> Iterator[PlannedStart]:
    """The job's start, or those of an array's tasks as far as Slurm plans them."""
    left, left_later = job.tasks, _MOST_LATER_TASKS
    while left and left_later and (found := schedule.find_start(job)) is not None:
        is_now = found.start_s <= schedule.now_s
        together = min(left if is_now else min(left, left_later), found.nodes.bit_count() // job.node_count)
        left, left_later = left - together, left_later - (0 if is_now else together)
        count = together * job.node_count
        nodes = (
            machine.choose_now(found.nodes, count, job, lent)
            if is_now
            else machine.choose(found.nodes, count, job)
        )
        schedule.plan(job, found.start_s, nodes)
        yield PlannedStart(job.id, found.start_s, machine.names(nodes))


def _in_order(snapshot: Snapshot, partition: str) -> list[Job]:
    """The site's jobs that wait for nothing but nodes, as Slurm sorts them."""
    ready = [
        job
        for job in snapshot.jobs
        if job.state is JobState.PENDING
        and job.partition != partition
        and job.reason in _READY_REASONS
        and job.node_count > 0
        and not job.is_held
    ]
    return sorted(ready, key=lambda job: (-_tier(job, snapshot), -job.priority, job.submitted_s, job.id))


def _tier(job: Job, snapshot: Snapshot) -> int:
    return max((one.priority_tier for one in _partitions(job, snapshot)), default=0)


def _partitions(job: Job, snapshot: Snapshot) -> list[Partition]:
    listed = (snapshot.partitions.get(name) for name in job.partition.split(","))
    return [one for one in listed if one is not None and one.is_up]


class _Machine:
    """Sets of nodes as bits of whole numbers, in Slurm's order of the nodes."""

    def __init__(self, snapshot: Snapshot, fragments: frozenset[str], lent: Iterable[str]) -> None:
        self._snapshot = snapshot
        self._names = tuple(node.name for node in snapshot.nodes)
        self._bit = {name: 1 << number for number, name in enumerate(self._names)}
        self._known: dict[tuple[str, str], int] = {}
        self._usable = self.bits(
            node.name
            for node in snapshot.nodes
            if node.state in ("IDLE", "ALLOCATED", "MIXED") and not node.flags & _NO_NEW_JOBS
        )
        self._free_from = {**dict.fromkeys(_hidden(snapshot, lent), inf), **_free_from(snapshot, fragments)}
        self._leaving = self.bits(
            name for job in snapshot.jobs if job.state is JobState.COMPLETING for name in job.nodes
        )

    def bits(self, names: Iterable[str]) -> int:
        """The set of these nodes; names that nobody knows are left out."""
        found = 0
        for name in names:
            found |= self._bit.get(name, 0)
        return found

    def names(self, bits: int) -> Nodes:
        """The nodes of a set."""
        return frozenset(self._names[number] for number in _numbers(bits))

    def possible(self, job: Job) -> int:
        """Nodes that the job could ever run on: in its partitions, with its features, and those that it names."""
        wanted = (job.partition, job.features)
        if wanted not in self._known:
            node = self._snapshot.node
            reachable = frozenset().union(*(one.nodes for one in _partitions(job, self._snapshot)))
            # A constraint that is not understood is taken to be met: rather a node too many is kept free.
            self._known[wanted] = self._usable & self.bits(
                name
                for name in reachable
                if name in node and meets_constraint(job.features, node[name].features) is not False
            )
        return self._known[wanted] & self.bits(job.required_nodes) if job.required_nodes else self._known[wanted]

    def releases(self) -> tuple[list[float], list[int]]:
        """Moments from now on at which running jobs end, and the nodes that none of them has then."""
        leaving: dict[float, list[str]] = {self._snapshot.time_s: []}
        for name, end_s in self._free_from.items():
            leaving.setdefault(end_s, []).append(name)
        free = self.bits(self._names) & ~self.bits(self._free_from)
        moments_s = sorted(end_s for end_s in leaving if end_s < inf)
        sets = []
        for moment_s in moments_s:
            free |= self.bits(leaving[moment_s])
            sets.append(free)
        return moments_s, sets

    def choose(self, nodes: int, count: int, job: Job) -> int:
        """As many: those on which Slurm has planned the job, or those that fit closest."""
        planned = self.bits(job.planned_nodes)
        if planned.bit_count() == count and planned & nodes == planned:
            return planned
        return _closest(nodes, count)

    def choose_now(self, nodes: int, count: int, job: Job, lent: Mapping[str, str]) -> int:
        """As many: those that nobody has, then lent ones, then those that are being cleared.

        Of the lent ones those on which Slurm has planned the job come first, then those of whoever has most.
        """
        ours = nodes & self.bits(lent) & ~self._leaving
        chosen = _closest(nodes & ~ours & ~self._leaving, count)
        chosen |= _closest(ours & self.bits(job.planned_nodes), count - chosen.bit_count())
        left = sorted(self.names(ours & ~chosen))
        chosen |= self.bits(_from_largest(left, lent, count - chosen.bit_count()))
        return chosen | _closest(nodes & self._leaving, count - chosen.bit_count())


def _free_from(snapshot: Snapshot, fragments: frozenset[str]) -> Mapping[str, float]:
    """Node that one of the site's jobs has → when it is free; one whose limit is over is so at any moment."""
    free_from: dict[str, float] = {}
    soon_s = snapshot.time_s + 1.0
    for job in snapshot.jobs:
        if job.state.has_nodes and job.id not in fragments and job.state is not JobState.COMPLETING:
            end_s = inf if job.end_s is None else max(job.end_s, soon_s)
            for name in job.nodes:
                free_from[name] = max(free_from.get(name, 0.0), end_s)
    return free_from


def _hidden(snapshot: Snapshot, lent: Iterable[str]) -> Nodes:
    """Nodes that somebody has whose job is not shown: nobody knows until when."""
    seen = frozenset(lent).union(*(job.nodes for job in snapshot.jobs if job.state.has_nodes))
    return frozenset(
        node.name for node in snapshot.nodes if node.state in ("ALLOCATED", "MIXED") and node.name not in seen
    )


def _from_largest(names: Sequence[str], lent: Mapping[str, str], count: int) -> list[str]:
    """The last node of whichever trainer has most left, again and again."""
    held: dict[str, list[str]] = {}
    for name in names:
        held.setdefault(lent[name], []).append(name)
    return [max(held.values(), key=len).pop() for _ in range(min(count, len(names)))]


@dataclass(frozen=True, slots=True)
class _Start:
    """A moment, and the nodes that are free then for long enough."""

    start_s: float
    nodes: int


@dataclass(frozen=True, slots=True)
class _Plan:
    """Nodes that a job or a reservation has from a moment to another."""

    begin_s: float
    end_s: float
    nodes: int


class _Schedule:
    """What has been planned so far."""

    def __init__(self, machine: _Machine, snapshot: Snapshot, rules: BackfillRules) -> None:
        self.now_s = snapshot.time_s
        self._machine = machine
        self._snapshot = snapshot
        self._rules = rules
        self._starting: list[_Plan] = []
        self._starting_nodes = 0
        self._later = [self._reserved(one) for one in snapshot.reservations if one.end_s > self.now_s]
        self._release_s, self._free = machine.releases()
        self._not_before_s: dict[tuple[int, int, float], float] = {}
        self._visits = 0

    def fits(self, job: Job) -> bool:
        """Whether there are nodes for it now, but for what else starts now."""
        possible = self._machine.possible(job) & self._free[0]
        if possible.bit_count() < job.node_count:
            return False
        taken = self._taken_of(self._later, self.now_s, self.now_s + self._limit_s(job))
        return (possible & ~taken).bit_count() >= job.node_count

    def find_start(self, job: Job) -> _Start | None:
        """The first moment at which it can start; None: not within the window, or not looked for any more."""
        possible, count, limit_s = self._machine.possible(job), job.node_count, self._limit_s(job)
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
                return _Start(start_s, nodes)
            if start_s > self.now_s and self._visits > _MOST_VISITS:
                return None
        return None

    def plan(self, job: Job, start_s: float, nodes: int) -> None:
        """From now on the nodes are the job's from then until its limit ends."""
        step_s = self._rules.resolution_s
        begin_s = start_s // step_s * step_s
        end_s = max((start_s + self._limit_s(job)) // step_s * step_s, begin_s + step_s)
        if start_s > self.now_s:
            self._later.append(_Plan(begin_s, end_s, nodes))
        else:
            self._starting.append(_Plan(begin_s, end_s, nodes))
            self._starting_nodes |= nodes

    @property
    def _plans(self) -> list[_Plan]:
        return self._starting + self._later

    def _limit_s(self, job: Job) -> float:
        return min([job.limit_s, _UNLIMITED_S, *(one.max_time_s for one in _partitions(job, self._snapshot))])

    def _reserved(self, reservation: Reservation) -> _Plan:
        return _Plan(reservation.start_s, reservation.end_s, self._machine.bits(reservation.nodes))

    def _free_at(self, time_s: float) -> int:
        return self._free[bisect_right(self._release_s, time_s) - 1]

    def _candidates(self, first_s: float) -> Iterator[float]:
        """Moments from this one on at which nodes become free."""
        plans_s = sorted({one.end_s for one in self._plans if one.end_s > first_s})
        running_s = self._release_s[bisect_right(self._release_s, first_s) :]
        return heapq.merge([first_s], plans_s, running_s)

    def _taken(self, begin_s: float, end_s: float) -> int:
        """Nodes that are planned for others then."""
        if begin_s <= self.now_s:
            return self._starting_nodes | self._taken_of(self._later, begin_s, end_s)
        return self._taken_of(self._plans, begin_s, end_s)

    def _taken_of(self, plans: Sequence[_Plan], begin_s: float, end_s: float) -> int:
        """Those of these plans; Slurm lets no job end in the step in which a plan begins."""
        self._visits += len(plans)
        taken = 0
        for plan in plans:
            if plan.begin_s <= end_s and plan.end_s > begin_s:
                taken |= plan.nodes
        return taken


def _numbers(bits: int) -> list[int]:
    """Which bits are set, from the lowest."""
    return [match.start() for match in re.finditer("1", bin(bits)[:1:-1])]


def _closest(bits: int, count: int) -> int:
    """As many neighbours as wanted: from the smallest group that has them all, or else from the largest ones."""
    if bits.bit_count() <= count:
        return bits
    chosen = 0
    text = bin(bits)[:1:-1]
    runs = [match.span() for match in re.finditer("1+", text)]
    whole = [run for run in runs if run[1] - run[0] >= count]
    ordered = [min(whole, key=_length)] if whole else sorted(runs, key=_length, reverse=True)
    for begin, end in ordered:
        taken = min(count, end - begin)
        chosen |= ((1 << taken) - 1) << begin
        count -= taken
    return chosen


def _length(run: tuple[int, int]) -> int:
    return run[1] - run[0]
