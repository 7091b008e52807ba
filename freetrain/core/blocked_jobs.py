"""Which of the site's jobs wait for the end of fragments: in a sound layout none ever does."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import inf

from freetrain.core.cluster import Job, JobState, Nodes, Snapshot
from freetrain.core.fragment import Fragment, FragmentState

_SAME_S = 2.0
"""Slurm plans a job that waits for another for the very second in which the other's time limit ends."""


@dataclass(frozen=True, slots=True)
class Wait:
    """One of the site's jobs that waits for fragments.

    Attributes:
        job: its id.
        partition: where it waits; several, comma-separated.
        nodes: lent nodes on which it is planned.
        until_s: when, by Slurm's plan, UTC epoch seconds.
    """

    job: str
    partition: str
    nodes: Nodes
    until_s: float


def find_waits(snapshot: Snapshot, fragments: Iterable[Fragment], partition: str) -> list[Wait]:
    """The site's jobs that Slurm plans for the end of a fragment's time limit, on nodes that are lent.

    A job that waits for others of the site's, too, is not among them: its start is explained by the last of those.
    Neither is one whose start was known first: the limits of fragments end well before it then.

    Args:
        snapshot: what there is.
        fragments: those that have not ended.
        partition: the preemptible one.
    """
    end_s = {one.node: _end_s(one, snapshot) for one in fragments if one.state is FragmentState.RUNNING}
    ends = sorted(set(end_s.values()))
    planned = [
        job
        for job in snapshot.jobs
        if job.state is JobState.PENDING and job.start_s is not None and job.planned_nodes
    ]
    suspects = [
        job
        for job in planned
        if job.partition != partition
        and not job.is_held
        and job.planned_nodes & end_s.keys()
        and _is_one_of(job.start_s or inf, ends)
        and (job.start_s or 0.0) > snapshot.time_s
    ]
    if not suspects:
        return []
    others_s = _site_ends(snapshot, partition)
    return [
        Wait(job.id, job.partition, job.planned_nodes & end_s.keys(), job.start_s or inf)
        for job in suspects
        if (job.start_s or inf) > _explained_s(job, others_s, planned) + _SAME_S
    ]


def _end_s(fragment: Fragment, snapshot: Snapshot) -> float:
    job = snapshot.job.get(fragment.job)
    if job is not None and job.end_s is not None:
        return job.end_s
    return inf if fragment.started_s is None else fragment.started_s + fragment.limit_s


def _is_one_of(time_s: float, ends: Iterable[float]) -> bool:
    return any(abs(time_s - end_s) <= _SAME_S for end_s in ends if end_s < inf)


def _site_ends(snapshot: Snapshot, partition: str) -> Mapping[str, float]:
    """Node → when the last of the site's jobs and reservations there is over, as far as is known; inf: unknown."""
    ends: dict[str, float] = {}
    for job in snapshot.jobs:
        if job.state.has_nodes and job.partition != partition:
            _later(ends, job.nodes, inf if job.end_s is None else job.end_s)
    for reservation in snapshot.reservations:
        _later(ends, reservation.nodes, reservation.end_s)
    return ends


def _later(ends: dict[str, float], nodes: Nodes, end_s: float) -> None:
    for name in nodes:
        ends[name] = max(end_s, ends.get(name, 0.0))


def _explained_s(job: Job, others_s: Mapping[str, float], planned: Iterable[Job]) -> float:
    """When the last of what the site itself has on the job's nodes before it is over."""
    start_s = job.start_s or inf
    before = [
        (other.start_s or 0.0) + other.limit_s
        for other in planned
        if other.id != job.id and (other.start_s or inf) < start_s and other.planned_nodes & job.planned_nodes
    ]
    running = [others_s[name] for name in job.planned_nodes if name in others_s]
    return max([*before, *running], default=0.0)
