"""Searches for the starts of waiting jobs; a look repeats only those whose result may have changed.

The result of a search depends on four things: the job, the nodes with the ends of what runs there, what was
planned before it, and the time. If the nodes and the queue are as at the look before, all searches hold until the
first moment that one of them named; most looks need no more. If only the nodes are, the queue is compared from its
head: as long as the same was planned so far, a job's search holds. The plans of such jobs are put into the
schedule only when a later job has to be searched.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf

from freetrain.core.amounts import Amount
from freetrain.core.job import Job
from freetrain.core.node import Nodes
from freetrain.lending.shadow.machine import Machine, Reach, Want
from freetrain.lending.shadow.node_sets import NodeSet
from freetrain.lending.shadow.schedule import BackfillRules, JobShape, Schedule, Start

# Slurm plans no more tasks of one array (its default of ``bf_max_job_array_resv``).
_MOST_LATER_TASKS = 20

# Each task on a part of a node is a search of its own; the others of an array follow at the next look.
_MOST_TASKS_IN_PARTS = 100


@dataclass(frozen=True, slots=True)
class PlannedStart:
    """Start of a job: its time and its nodes.

    Attributes:
        by_backfill: whether it waits for Slurm's next backfill cycle, since a job before it cannot start yet.
        part: amount of each of these nodes that it has; None: all of it.
        back: places that are given back for it, for a start now on parts.
        beside: node → amount left of it for others then, for a later start on parts.
    """

    job: str
    start_s: float
    nodes: Nodes
    by_backfill: bool = False
    part: Amount | None = None
    back: tuple[str, ...] = ()
    beside: Mapping[str, Amount] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Search:
    """Result of the search for the starts of one job.

    Attributes:
        shape: the properties of the job that count.
        is_believed: whether its starts were searched for.
        fits: whether there were nodes for it, whatever else starts now.
        planned: the starts as they were put into the schedule, with sets of nodes.
        not_before_s: the stretch before which no job of its shape starts; None: unknown.
        holds_until_s: time until which the same is found if only time changes; a start now stays one until then.
    """

    job: Job
    shape: JobShape
    is_believed: bool
    fits: bool
    plans: tuple[PlannedStart, ...]
    planned: tuple[tuple[float, NodeSet], ...]
    not_before_s: float | None
    holds_until_s: float

    @property
    def effect(self) -> tuple[object, ...]:
        """Properties of it on which the searches after it depend."""
        return self.shape, self.planned, self.not_before_s

    def holds(self, job: Job, is_believed: bool, now_s: float) -> bool:
        """Whether the same would be found for a job now, on the same machine and behind the same plans."""
        # Jobs that are as they were are mostly the same objects.
        is_same = is_believed == self.is_believed and (job is self.job or job == self.job)
        # A start now moves on with the time, and with it the job's end and the plans behind it.
        starts_now = bool(self.planned) and self.planned[0][0] <= now_s
        return is_same and now_s < self.holds_until_s and not starts_now


@dataclass(frozen=True, slots=True)
class Searches:
    """All searches of a look, one for each job in Slurm's order, and what they depend on besides jobs and time."""

    all: tuple[Search, ...] = ()
    rules: BackfillRules | None = None
    availability: tuple[object, ...] = ()
    reaches: Mapping[Want, Reach] = field(default_factory=dict)

    def are_of(self, machine: Machine, rules: BackfillRules) -> bool:
        """Whether the nodes and the rules are as they were."""
        is_alike = self.rules == rules and self.availability == machine.availability
        return is_alike and machine.has_reaches(self.reaches)

    def hold(self, queue: Sequence[Job], disbelieved: frozenset[str], now_s: float) -> bool:
        """Whether none of them would find anything else, on a machine as it was."""
        return len(queue) == len(self.all) and all(
            search.holds(job, job.id not in disbelieved, now_s)
            for search, job in zip(self.all, queue, strict=True)
        )


class Searcher:
    """Search for the starts of job after job, in a schedule that is empty at first; ``done`` has those so far.

    Args:
        before: the searches of the look before, if the machine was as it is now.
    """

    def __init__(self, machine: Machine, schedule: Schedule, before: Sequence[Search]) -> None:
        self._machine = machine
        self._schedule = schedule
        self._before = before
        self._number_of = {search.job.id: number for number, search in enumerate(before)}
        self._compared = 0
        self._is_as_before = bool(before)
        self._unplanned: list[Search] = []
        self.done: list[Search] = []

    def search(self, job: Job, is_believed: bool) -> Search:
        """Find the starts of a job, and plan them."""
        before = self._search_before(job)
        if before is not None and before.holds(job, is_believed, self._schedule.now_s):
            self._unplanned.append(before)
            found = before
        else:
            found = self._search_anew(job, is_believed)
            has_effect = bool(found.planned) or found.not_before_s is not None
            self._is_as_before &= found.effect == before.effect if before is not None else not has_effect
        self.done.append(found)
        return found

    def _search_before(self, job: Job) -> Search | None:
        """The job's search of the look before, if the same has been planned before it as then."""
        number = self._number_of.get(job.id)
        if number is None or not self._is_as_before:
            return None
        left_out = self._before[self._compared : number]
        self._is_as_before = number >= self._compared and not any(search.planned for search in left_out)
        self._compared = number + 1
        return self._before[number] if self._is_as_before else None

    def _search_anew(self, job: Job, is_believed: bool) -> Search:
        schedule, shape = self._schedule, self._schedule.shape_of(job)
        for search in self._unplanned:
            for start_s, nodes in search.planned:
                schedule.plan(search.job, start_s, nodes)
            if search.not_before_s is not None:
                schedule.not_before_s[search.shape] = search.not_before_s
        self._unplanned.clear()
        schedule.holds_until_s = inf
        fits = schedule.fits(job)
        starts = list(self._starts_of(job, shape)) if is_believed else []
        return Search(
            job,
            shape,
            is_believed,
            fits,
            tuple(plan for plan, _ in starts),
            tuple((plan.start_s, nodes) for plan, nodes in starts),
            schedule.not_before_s.get(shape),
            schedule.holds_until_s,
        )

    def _starts_of(self, job: Job, shape: JobShape) -> Iterator[tuple[PlannedStart, NodeSet]]:
        machine, schedule = self._machine, self._schedule
        left, left_later = job.tasks, _MOST_LATER_TASKS
        if job.asks is not None:
            left = min(left, _MOST_TASKS_IN_PARTS)
        while left and left_later and (found := schedule.find_start(shape)) is not None:
            is_now = found.start_s <= schedule.now_s
            # Tasks that take whole nodes at one time are one plan: thousands of them would be as many searches.
            together = 1
            if job.asks is None or not is_now:
                together = min(
                    left if is_now else min(left, left_later), found.nodes.bit_count() // job.node_count
                )
            left, left_later = left - together, left_later - (0 if is_now else together)
            if is_now and job.asks is not None:
                plan = _start_on_parts(job, job.asks, machine, found)
                nodes = machine.sets.of(plan.nodes)
            else:
                choose = machine.choose_now if is_now else machine.choose
                nodes = choose(found.nodes, together * job.node_count, job)
                beside = schedule.beside(job, found.start_s, nodes)
                names = machine.sets.names(nodes)
                plan = PlannedStart(job.id, found.start_s, names, part=job.asks, beside=beside)
            schedule.plan(job, found.start_s, nodes)
            yield plan, nodes


def _start_on_parts(job: Job, part: Amount, machine: Machine, found: Start) -> PlannedStart:
    """The start of one task now, with the places that have to be given back for it."""
    chosen = machine.choose_parts_now(found.nodes, job, part)
    back = tuple(part.place for parts in chosen.values() for part in parts)
    return PlannedStart(job.id, found.start_s, frozenset(chosen), part=part, back=back)
