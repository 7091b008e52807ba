"""Starts of the site's waiting jobs: the jobs that would start now, and the times and nodes of the others.

It follows Slurm's backfill scheduler (``src/plugins/sched/backfill/backfill.c`` of Slurm 22.05): jobs are taken in
the order of their partitions' tiers and their own priorities. Each is started at once if that delays no job before
it; otherwise it is planned for the first moment at which it can start. Running jobs end at their time limits. The
starts of Slurm's main scheduler are among these: it stops in a partition at the first job that cannot start there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import inf
from types import MappingProxyType

from freetrain.core.cluster import Snapshot
from freetrain.core.fragment_queue import FragmentQueue
from freetrain.core.job import Job, JobState, WaitsFor
from freetrain.lending.shadow.free_capacity import LentPart
from freetrain.lending.shadow.machine import Machine, partitions_of
from freetrain.lending.shadow.schedule import BackfillRules, Schedule
from freetrain.lending.shadow.searches import PlannedStart, Searcher, Searches

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
