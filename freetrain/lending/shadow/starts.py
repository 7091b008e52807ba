"""Starts of the site's waiting jobs: the jobs that would start now, and the times and nodes of the others.

It follows Slurm's backfill scheduler (``src/plugins/sched/backfill/backfill.c`` of Slurm 22.05): jobs are taken in
the order of their partitions' tiers and their own priorities. Each is started at once if that delays no job before
it; otherwise it is planned for the first moment at which it can start. Running jobs end at their time limits. The
starts of Slurm's main scheduler are among these: it stops in a partition at the first job that cannot start there.

A look repeats only searches whose result may have changed. The result depends on four things: the job, the nodes
with the ends of what runs there, what was planned before it, and the time. If the nodes and the queue are as at
the look before, all searches hold until the first moment that one of them named; most looks need no more. If only
the nodes are, the queue is compared from its head: as long as the same was planned so far, a job's search holds.
The plans of such jobs are put into the schedule only when a later job has to be searched.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import inf
from types import MappingProxyType

from freetrain.core.amounts import Amount
from freetrain.core.cluster import Snapshot
from freetrain.core.fragment_queue import FragmentQueue
from freetrain.core.job import Job, JobState, WaitsFor
from freetrain.core.node import Nodes
from freetrain.lending.shadow.free_capacity import LentPart
from freetrain.lending.shadow.machine import Machine, Reach, Want, partitions_of
from freetrain.lending.shadow.schedule import BackfillRules, JobShape, Schedule

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
        not_before_s: the stretch before which no job of its shape starts; None: unknown.
        holds_until_s: time until which the same is found if only time changes; a start now stays one until then.
    """

    job: Job
    shape: JobShape
    is_believed: bool
    fits: bool
    plans: tuple[PlannedStart, ...]
    not_before_s: float | None
    holds_until_s: float

    @property
    def effect(self) -> tuple[object, ...]:
        """Properties of it on which the searches after it depend."""
        return self.shape, [(plan.start_s, plan.nodes) for plan in self.plans], self.not_before_s

    def holds(self, job: Job, is_believed: bool, now_s: float) -> bool:
        """Whether the same would be found for a job now, on the same machine and behind the same plans."""
        # Jobs that are as they were are mostly the same objects.
        is_same = is_believed == self.is_believed and (job is self.job or job == self.job)
        # A start now moves on with the time, and with it the job's end and the plans behind it.
        starts_now = bool(self.plans) and self.plans[0].start_s <= now_s
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
            has_effect = bool(found.plans) or found.not_before_s is not None
            self._is_as_before &= found.effect == before.effect if before is not None else not has_effect
        self.done.append(found)
        return found

    def _search_before(self, job: Job) -> Search | None:
        """The job's search of the look before, if the same has been planned before it as then."""
        number = self._number_of.get(job.id)
        if number is None or not self._is_as_before:
            return None
        left_out = self._before[self._compared : number]
        self._is_as_before = number >= self._compared and not any(search.plans for search in left_out)
        self._compared = number + 1
        return self._before[number] if self._is_as_before else None

    def _search_anew(self, job: Job, is_believed: bool) -> Search:
        schedule, shape = self._schedule, self._schedule.shape_of(job)
        for search in self._unplanned:
            for plan in search.plans:
                self._plan(search.job, plan)
            if search.not_before_s is not None:
                schedule.not_before_s[search.shape] = search.not_before_s
        self._unplanned.clear()
        schedule.holds_until_s = inf
        fits = schedule.fits(shape)
        plans = tuple(self._starts_of(job, shape)) if is_believed else ()
        not_before_s = schedule.not_before_s.get(shape)
        return Search(job, shape, is_believed, fits, plans, not_before_s, schedule.holds_until_s)

    def _plan(self, job: Job, plan: PlannedStart) -> None:
        self._schedule.plan(job, plan.start_s, self._machine.sets.of(plan.nodes))

    def _starts_of(self, job: Job, shape: JobShape) -> Iterator[PlannedStart]:
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
                chosen = machine.choose_parts_now(found.nodes, job, job.asks)
                back = tuple(part.place for parts in chosen.values() for part in parts)
                plan = PlannedStart(job.id, found.start_s, frozenset(chosen), part=job.asks, back=back)
            else:
                choose = machine.choose_now if is_now else machine.choose
                nodes = choose(found.nodes, together * job.node_count, job)
                beside = schedule.beside(job, found.start_s, nodes)
                names = machine.sets.names(nodes)
                plan = PlannedStart(job.id, found.start_s, names, part=job.asks, beside=beside)
            self._plan(job, plan)
            yield plan


# Bounds the time of a look: jobs further back are left out, even if Slurm looks at them (``bf_max_job_test``).
_MOST_JOBS = 1000


@dataclass(frozen=True)
class Shadow:
    """Plan that Slurm would make for the site's jobs if nothing were lent.

    Attributes:
        plans: the jobs that start now or later, in Slurm's order; array tasks that start together are one plan.
        fitting: jobs for which there are nodes now that no job before them waits for, whichever job starts on
            them.
        searches: the searches that found it, so that the next look repeats only what has changed.
    """

    time_s: float
    plans: tuple[PlannedStart, ...]
    fitting: frozenset[str]
    searches: Searches = field(default=Searches(), compare=False, repr=False)

    @property
    def changes_s(self) -> float:
        """Next time at which the starts change without any event, UTC epoch seconds; inf: never."""
        return min((search.holds_until_s for search in self.searches.all), default=inf)

    @cached_property
    def kept(self) -> Mapping[str, str]:
        """Node → the job that would start there now, on all of it."""
        now = (plan for plan in self.plans if plan.start_s <= self.time_s and plan.part is None)
        return {name: plan.job for plan in now for name in plan.nodes}

    @cached_property
    def wanted(self) -> Mapping[str, PlannedStart]:
        """Node → the first plan there of a job that cannot start now, on all of the node or on a part."""
        later = sorted(
            (plan for plan in self.plans if plan.start_s > self.time_s),
            key=lambda plan: plan.start_s,
            reverse=True,
        )
        return {name: plan for plan in later for name in plan.nodes}


NO_SHADOW = Shadow(inf, (), frozenset())


@dataclass(frozen=True, slots=True)
class PlansCompared:
    """Slurm's own plan compared with the shadow's.

    Attributes:
        jobs: number of waiting jobs that both have planned for later.
        differing: number of these that have different starts.
    """

    jobs: int
    differing: int


def compare_plans(shadow: Shadow, jobs: Iterable[Job], allowed_s: float) -> PlansCompared:
    """Comparison of the two plans; of both the earlier end of a hole holds in any case."""
    first_s: dict[str, float] = {}
    for plan in shadow.plans:
        first_s[plan.job] = min(plan.start_s, first_s.get(plan.job, plan.start_s))
    off_s = [
        abs(first_s[job.id] - job.start_s)
        for job in jobs
        if job.state is JobState.PENDING and job.start_s is not None and job.id in first_s
        if job.start_s > shadow.time_s
    ]
    return PlansCompared(len(off_s), sum(seconds > allowed_s for seconds in off_s))


def find_shadow(
    snapshot: Snapshot,
    ours: FragmentQueue,
    fragments: frozenset[str],
    lent: Mapping[str, str],
    rules: BackfillRules,
    disbelieved: frozenset[str] = frozenset(),
    parts: Mapping[str, Sequence[LentPart]] = MappingProxyType({}),
    before: Shadow = NO_SHADOW,
) -> Shadow:
    """The shadow schedule of the site's jobs.

    1. Waiting jobs are taken in Slurm's order.
    2. A job that can start now gets nodes: first free ones and those that are being given back, then lent ones,
       one after the other from the trainers that have most. A job that wants parts of nodes gets free parts, or
       those for which the smallest number of lent parts is given back.
    3. Any other job is planned for the moment that Slurm would find: when enough nodes are free for as long as its
       time limit; on Slurm's nodes if Slurm has planned it.

    The jobs in ``fragments`` do not exist in the shadow; ``lent`` has no nodes that are being given back. What the
    look before found is used again where nothing can have changed it.
    """
    queue = in_slurms_order(snapshot, ours)[: min(rules.most_jobs, _MOST_JOBS)]
    if not queue:
        return Shadow(snapshot.time_s, (), frozenset())
    machine, now_s = Machine(snapshot, fragments, lent, parts), snapshot.time_s
    is_alike = before.time_s <= now_s and before.searches.are_of(machine, rules)
    if is_alike and before.searches.hold(queue, disbelieved, now_s):
        return replace(before, time_s=now_s)
    searcher = Searcher(machine, Schedule(machine, snapshot, rules), before.searches.all if is_alike else ())
    plans: list[PlannedStart] = []
    blocked: set[str] = set()
    for job in queue:
        search = searcher.search(job, is_believed=job.id not in disbelieved)
        # It did not start on free nodes, so it waits for something unknown: it gets none, and holds up no job
        # behind it.
        if not search.is_believed:
            continue
        # Slurm's main scheduler stops in a partition at the first job that cannot start: behind it only backfill
        # goes on.
        in_partitions = set(job.partition.split(","))
        is_late = in_partitions <= blocked
        plans += [replace(plan, by_backfill=True) for plan in search.plans] if is_late else search.plans
        if not search.plans or search.plans[-1].start_s > now_s:
            blocked |= in_partitions
    fitting = frozenset(search.job.id for search in searcher.done if search.fits)
    searches = Searches(tuple(searcher.done), rules, machine.availability, machine.reaches)
    return Shadow(now_s, tuple(plans), fitting, searches)


def in_slurms_order(snapshot: Snapshot, ours: FragmentQueue) -> list[Job]:
    """The site's jobs that wait for nothing but nodes, in the order in which Slurm takes them."""
    ready = [
        job
        for job in snapshot.site_jobs(ours)
        if job.state is JobState.PENDING
        and job.waits_for is WaitsFor.NODES
        and job.node_count > 0
        and not job.is_held
    ]
    tiers = {name: _tier(name, snapshot) for name in {job.partition for job in ready}}
    return sorted(ready, key=lambda job: (-tiers[job.partition], -job.priority, job.submitted_s, _number(job)))


def _number(job: Job) -> int:
    digits = job.array.partition("+")[0]
    return int(digits) if digits.isdecimal() else 0


def _tier(partition: str, snapshot: Snapshot) -> int:
    return max((partition_.priority_tier for partition_ in partitions_of(partition, snapshot)), default=0)
