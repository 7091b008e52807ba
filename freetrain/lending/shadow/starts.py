"""Which of the site's waiting jobs start now, and when and where the others.

It follows Slurm's backfill scheduler (``src/plugins/sched/backfill/backfill.c`` of Slurm 22.05): jobs are looked
at in the order of their partitions' tiers and their own priorities, and each one is started at once where that
delays no job before it, or else planned for a moment at which it can start. Running jobs end at their limits. What
Slurm's main scheduler starts is part of this: it leaves a partition alone behind the first job that cannot start
there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from types import MappingProxyType

from freetrain.core.amounts import Amount
from freetrain.core.cluster import Snapshot
from freetrain.core.fragment_queue import FragmentQueue
from freetrain.core.job import Job, JobState, WaitsFor
from freetrain.core.node import Nodes
from freetrain.lending.shadow.ground import LentPart
from freetrain.lending.shadow.machine import Machine, partitions_of
from freetrain.lending.shadow.schedule import BackfillRules, Schedule, Start

_MOST_JOBS = 1000
"""Who stands further back in the queue does not start at once, however many jobs Slurm looks at."""

_MOST_LATER_TASKS = 20
"""Slurm plans no more tasks of one array (its default of ``bf_max_job_array_resv``)."""

_MOST_TASKS_IN_PARTS = 100
"""So many tasks of one array start at once on parts of nodes; those behind them at the next look."""


@dataclass(frozen=True, slots=True)
class PlannedStart:
    """When a job starts, and where.

    Attributes:
        job: its id.
        start_s: when, UTC epoch seconds.
        nodes: where.
        by_backfill: whether it waits for Slurm's next backfill cycle, since a job before it cannot start yet.
        part: how much of each of these nodes it has, beside others; None: all of it.
        clear: of one that starts now on parts: nodes on which it does so without anything being given back.
        back: and the places that are given back for it on the others.
        beside: of one that starts later on parts: node → what is left of it for others then.
    """

    job: str
    start_s: float
    nodes: Nodes
    by_backfill: bool = False
    part: Amount | None = None
    clear: Nodes = frozenset()
    back: tuple[str, ...] = ()
    beside: Mapping[str, Amount] = field(default_factory=dict)


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
        """Node → the job that would start there now, on all of it."""
        now = (plan for plan in self.plans if plan.start_s <= self.time_s and plan.part is None)
        return {name: plan.job for plan in now for name in plan.nodes}

    @cached_property
    def wanted(self) -> Mapping[str, PlannedStart]:
        """Node → who starts there first of those that cannot start now, on all of it or on a part."""
        later = sorted(
            (plan for plan in self.plans if plan.start_s > self.time_s),
            key=lambda plan: plan.start_s,
            reverse=True,
        )
        return {name: plan for plan in later for name in plan.nodes}


@dataclass(frozen=True, slots=True)
class PlansCompared:
    """Slurm's own plan beside the shadow's.

    Attributes:
        jobs: waiting jobs that both have planned for later.
        differing: those for which they do not agree when.
    """

    jobs: int
    differing: int


def compare_plans(shadow: Shadow, jobs: Iterable[Job], allowed_s: float) -> PlansCompared:
    """How well they agree; the more cautious of both holds in any case.

    Args:
        shadow: the one.
        jobs: with Slurm's planned starts.
        allowed_s: by how much the starts may differ.
    """
    first_s: dict[str, float] = {}
    for plan in shadow.plans:
        first_s[plan.job] = min(plan.start_s, first_s.get(plan.job, plan.start_s))
    off_s = [
        abs(first_s[job.id] - job.start_s)
        for job in jobs
        if job.state is JobState.PENDING and job.start_s is not None and job.id in first_s
        if job.start_s > shadow.time_s
    ]
    return PlansCompared(len(off_s), sum(each > allowed_s for each in off_s))


def find_shadow(
    snapshot: Snapshot,
    ours: FragmentQueue,
    fragments: frozenset[str],
    lent: Mapping[str, str],
    rules: BackfillRules,
    disbelieved: frozenset[str] = frozenset(),
    parts: Mapping[str, Sequence[LentPart]] = MappingProxyType({}),
) -> Shadow:
    """What would happen to the site's jobs.

    1. Waiting jobs are taken in Slurm's order.
    2. One that can start now gets nodes: those first that nobody has or that are being given back, then lent ones,
       one after the other from the trainers that have most. One that wants parts of nodes gets these: where they
       are free, or where the fewest lent ones are given back for them.
    3. Any other is planned for the moment that Slurm would find, when enough nodes are free for as long as its
       limit; where Slurm has planned it, on Slurm's nodes.

    Args:
        snapshot: what there is.
        ours: where fragments wait and run; all other jobs are the site's.
        fragments: jobs that do not exist in the shadow.
        lent: node → the trainer that has it; none that is being given back.
        rules: how Slurm plans.
        disbelieved: jobs that did not start although their nodes were free: they wait for something that is not
            known here, and get no nodes.
        parts: node → the parts of it that fragments have, where nodes are lent in parts.
    """
    queue = in_slurms_order(snapshot, ours)[: min(rules.most_jobs, _MOST_JOBS)]
    if not queue:
        return Shadow(snapshot.time_s, (), frozenset())
    machine = Machine(snapshot, fragments, lent, parts)
    schedule = Schedule(machine, snapshot, rules)
    plans: list[PlannedStart] = []
    fitting: set[str] = set()
    blocked: set[str] = set()
    for job in queue:
        if schedule.fits(job):
            fitting.add(job.id)
        if job.id in disbelieved:
            continue
        in_partitions = set(job.partition.split(","))
        starts = list(_starts_of(job, machine, schedule, lent))
        plans += [replace(one, by_backfill=in_partitions <= blocked) for one in starts]
        if not starts or starts[-1].start_s > snapshot.time_s:
            blocked |= in_partitions
    return Shadow(snapshot.time_s, tuple(plans), frozenset(fitting))


def _starts_of(job: Job, machine: Machine, schedule: Schedule, lent: Mapping[str, str]) -> Iterator[PlannedStart]:
    """The job's start, or those of an array's tasks as far as Slurm plans them."""
    left, left_later = job.tasks, _MOST_LATER_TASKS
    if job.asks is not None:
        left = min(left, _MOST_TASKS_IN_PARTS)
    while left and left_later and (found := schedule.find_start(job)) is not None:
        is_now = found.start_s <= schedule.now_s
        together = 1
        if job.asks is None or not is_now:
            together = min(left if is_now else min(left, left_later), found.nodes.bit_count() // job.node_count)
        left, left_later = left - together, left_later - (0 if is_now else together)
        if is_now and job.asks is not None:
            plan = _start_on_parts(job, job.asks, machine, found)
            nodes = machine.sets.of(plan.nodes)
        else:
            choose = partial(machine.choose_now, lent=lent) if is_now else machine.choose
            nodes = choose(found.nodes, together * job.node_count, job)
            beside = schedule.beside(job, found.start_s, nodes)
            plan = PlannedStart(job.id, found.start_s, machine.sets.names(nodes), part=job.asks, beside=beside)
        schedule.plan(job, found.start_s, nodes)
        yield plan


def _start_on_parts(job: Job, part: Amount, machine: Machine, found: Start) -> PlannedStart:
    """One task's start now, with what has to be given back for it."""
    chosen = machine.choose_parts_now(found.nodes, job, part)
    back = tuple(one.place for parts in chosen.values() for one in parts)
    clear = frozenset(name for name, parts in chosen.items() if not parts)
    return PlannedStart(job.id, found.start_s, frozenset(chosen), part=part, clear=clear, back=back)


def in_slurms_order(snapshot: Snapshot, ours: FragmentQueue) -> list[Job]:
    """The site's jobs that wait for nothing but nodes, as Slurm sorts them."""
    ready = [
        job
        for job in snapshot.jobs
        if job.state is JobState.PENDING
        and not ours.has(job)
        and job.waits_for is WaitsFor.NODES
        and job.node_count > 0
        and not job.is_held
    ]
    return sorted(ready, key=lambda job: (-_tier(job, snapshot), -job.priority, job.submitted_s, _number(job)))


def _number(job: Job) -> int:
    digits = job.array.partition("+")[0]
    return int(digits) if digits.isdecimal() else 0


def _tier(job: Job, snapshot: Snapshot) -> int:
    return max((one.priority_tier for one in partitions_of(job, snapshot)), default=0)
