"""The site's jobs that wait for the end of fragments: in a sound layout none ever does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf

from freetrain.core.cluster import Snapshot
from freetrain.core.fragment import Fragment
from freetrain.core.fragment_queue import FragmentQueue
from freetrain.core.job import Job, JobState
from freetrain.core.node import Nodes
from freetrain.lending.facts import Facts
from freetrain.lending.rules import NodeRules

# Slurm plans a job that waits for another for the second in which the other's time limit ends.
_SAME_S = 2.0

MOST_TIMES = 2
"""Number of waits of a partition's jobs for fragments from which on nothing is lent on its nodes any more."""


@dataclass(frozen=True, slots=True)
class Wait:
    """One of the site's jobs that waits for fragments.

    Attributes:
        partition: its partition; several, comma-separated.
        nodes: lent nodes on which it is planned.
        until_s: its start by Slurm's plan, UTC epoch seconds.
    """

    job: str
    partition: str
    nodes: Nodes
    until_s: float


@dataclass(frozen=True, slots=True)
class Blocked:
    """The jobs for which nodes were given back, and the partitions in which nothing is lent for that reason.

    Attributes:
        jobs: those of the site's that waited for fragments and have not started yet.
        times: partition → number of times that its jobs had to wait.
        kept: node given back for such a job → the job, and the time until which the node is kept free.
        new: waits that the last look found.
    """

    jobs: frozenset[str] = frozenset()
    times: Mapping[str, int] = field(default_factory=dict)
    kept: Mapping[str, tuple[str, float]] = field(default_factory=dict)
    new: tuple[Wait, ...] = ()

    @property
    def new_partitions(self) -> frozenset[str]:
        """Partitions whose jobs were found waiting at the last look."""
        return frozenset(name for wait in self.new for name in wait.partition.split(","))

    def after(self, waits: Iterable[Wait], snapshot: Snapshot, claim_s: float) -> Blocked:
        """The record after a look that found these waits."""
        waits = tuple(waits)
        new = tuple(wait for wait in waits if wait.job not in self.jobs)
        waiting = frozenset(job.id for job in snapshot.jobs if job.state is JobState.PENDING)
        jobs = (self.jobs | {wait.job for wait in waits}) & waiting
        until_s = snapshot.time_s + claim_s
        kept = {**self.kept, **{name: (wait.job, until_s) for wait in waits for name in wait.nodes}}
        kept = {
            name: (job, end_s) for name, (job, end_s) in kept.items() if job in jobs and snapshot.time_s < end_s
        }
        found = Blocked(jobs, self.times, kept, new)
        return replace(found, times=Counter(self.times) + Counter(found.new_partitions))

    def forgetting(self) -> Blocked:
        """The record with no wait held against any partition: the layout has changed, or has been checked."""
        return replace(self, times={})

    def why_not(self, snapshot: Snapshot) -> Mapping[str, str]:
        """The nodes that are not to be lent, or must be given back → why.

        1. All nodes of a partition in which it happened twice.
        2. Those given back for a job, until it has started, or has had its chance.
        """
        barred = {
            name: f"jobs of partition {partition} had to wait for fragments"
            for partition, times in self.times.items()
            if times >= MOST_TIMES and partition in snapshot.partitions
            for name in snapshot.partitions[partition].nodes
        }
        return barred | {name: f"job {job} waits for this node" for name, (job, _) in self.kept.items()}


def find_waits(facts: Facts, rules: NodeRules) -> list[Wait]:
    """The site's jobs that Slurm plans for the end of a fragment's time limit, on nodes that are lent.

    A job that waits for others of the site's, too, is not among them: its start is explained by the last of those.
    Slurm takes times that are closer than its resolution together, so that one such start may seem another.
    Neither is a job whose start was known first: the limits of fragments end well before it then.
    """
    snapshot = facts.snapshot
    planned = [
        job
        for job in snapshot.site_jobs(rules.queue)
        if job.state is JobState.PENDING and job.start_s is not None and job.planned_nodes
    ]
    if not planned:
        return []
    end_s = {fragment.node: _end_s(fragment, snapshot) for fragment in _preemptible(facts, rules)}
    ends_s = set(end_s.values()) - {inf}
    suspects = [
        job
        for job in planned
        if not job.is_held
        and job.planned_nodes & end_s.keys()
        and any(abs((job.start_s or inf) - at_s) <= _SAME_S for at_s in ends_s)
        and (job.start_s or 0.0) > snapshot.time_s
    ]
    if not suspects:
        return []
    others_s = _site_ends(snapshot, rules.queue)
    return [
        Wait(job.id, job.partition, job.planned_nodes & end_s.keys(), job.start_s or inf)
        for job in suspects
        if (job.start_s or inf) > _explained_s(job, others_s, planned) + max(rules.backfill.resolution_s, _SAME_S)
    ]


def _preemptible(facts: Facts, rules: NodeRules) -> Sequence[Fragment]:
    if not facts.exempt_s:
        return facts.running
    # A job that waits for fragments that are still exempt from preemption is planned for their end, which is
    # right.
    oldest_s = facts.snapshot.time_s - facts.exempt_s - rules.claim_s
    return [fragment for fragment in facts.running if (fragment.started_s or inf) <= oldest_s]


def _end_s(fragment: Fragment, snapshot: Snapshot) -> float:
    job = snapshot.job.get(fragment.job)
    if job is not None and job.end_s is not None:
        return job.end_s
    return inf if fragment.started_s is None else fragment.started_s + fragment.limit_s


def _site_ends(snapshot: Snapshot, ours: FragmentQueue) -> Mapping[str, float]:
    ends: dict[str, float] = {}
    for job in snapshot.jobs:
        # A job whose end is unknown explains every later start: inf.
        if job.state.has_nodes and not ours.has(job):
            _later(ends, job.nodes, inf if job.end_s is None else job.end_s)
    for reservation in snapshot.reservations:
        _later(ends, reservation.nodes, reservation.end_s)
    return ends


def _later(ends: dict[str, float], nodes: Nodes, end_s: float) -> None:
    for name in nodes:
        ends[name] = max(end_s, ends.get(name, 0.0))


def _explained_s(job: Job, others_s: Mapping[str, float], planned: Iterable[Job]) -> float:
    """End of the site's own last use of the job's nodes before it, UTC epoch seconds; 0: there is none."""
    start_s = job.start_s or inf
    before = [
        (other.start_s or 0.0) + other.limit_s
        for other in planned
        if other.id != job.id and (other.start_s or inf) < start_s and other.planned_nodes & job.planned_nodes
    ]
    running = [others_s[name] for name in job.planned_nodes if name in others_s]
    return max([*before, *running], default=0.0)
