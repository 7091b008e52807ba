"""Nodes kept free for the first waiting job of each partition, shortly before it can start. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from freetrain.core.cluster import Snapshot
from freetrain.core.job import Job, JobState
from freetrain.core.node import Nodes
from freetrain.core.place import Place
from freetrain.lending.rooms import Rooms
from freetrain.lending.rules import NodeRules
from freetrain.lending.shadow import PlannedStart, Shadow

# By its age alone, a job that has just begun would be expected to end at once.
_YOUNG_S = 30.0


def nodes_of_next(
    offered: Iterable[Place],
    shadow: Shadow,
    snapshot: Snapshot,
    rules: NodeRules,
    rooms: Rooms | None = None,
) -> Mapping[str, str]:
    """Nodes kept free, and given back where lent, for those next in line that want all of them → why."""
    plans = [plan for plan in first_in_line(shadow, snapshot).values() if plan.part is None]
    if not plans:
        return {}
    names = frozenset(offer.node for offer in offered)
    clear = frozenset(name for name in names if not (rooms and name in rooms and rooms[name].used_by_site))
    jobs_on = Counter(name for job in _running(snapshot, rules) for name in job.nodes)
    # A node that another job stays on does not come free with this one.
    ending = [frozenset(name for name in job.nodes if jobs_on[name] == 1) for job in _ending(snapshot, rules)]
    kept: dict[str, str] = {}
    for plan in plans:
        missing = len(plan.nodes - clear)
        reachable = _reachable(plan, snapshot)
        if any(len(nodes & reachable) >= missing for nodes in ending):
            kept |= dict.fromkeys(sorted(plan.nodes & names), _why(plan))
    return kept


def _why(plan: PlannedStart) -> str:
    return f"job {plan.job} is next to start here"


def _running(snapshot: Snapshot, rules: NodeRules) -> Iterator[Job]:
    return (job for job in snapshot.site_jobs(rules.queue) if job.state is JobState.RUNNING)


def _ending(snapshot: Snapshot, rules: NodeRules) -> list[Job]:
    return [job for job in _running(snapshot, rules) if _left_s(job, snapshot.time_s) < rules.next_within_s]


def first_in_line(shadow: Shadow, snapshot: Snapshot) -> Mapping[str, PlannedStart]:
    """Partition → the first of its jobs that cannot start yet."""
    first: dict[str, PlannedStart] = {}
    for plan in shadow.plans:
        if plan.start_s > shadow.time_s:
            for name in snapshot.job[plan.job].partition.split(","):
                first.setdefault(name, plan)
    return first


def _left_s(job: Job, now_s: float) -> float:
    """How much longer it runs, as far as one can tell: as long as it has run already, at most until its limit."""
    age_s = now_s - (now_s if job.start_s is None else job.start_s)
    expected_s = max(age_s, _YOUNG_S)
    return expected_s if job.end_s is None else min(expected_s, job.end_s - now_s)


def _reachable(plan: PlannedStart, snapshot: Snapshot) -> Nodes:
    """Nodes of the partitions in which the job waits."""
    names = snapshot.job[plan.job].partition.split(",")
    return Nodes().union(*(snapshot.partitions[name].nodes for name in names if name in snapshot.partitions))
