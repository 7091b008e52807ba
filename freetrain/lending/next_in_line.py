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

_YOUNG_S = 30.0
"""A job that has just begun is expected to last as long as this at least."""


def nodes_of_next(
    offered: Iterable[Place],
    shadow: Shadow,
    snapshot: Snapshot,
    rules: NodeRules,
    rooms: Rooms | None = None,
) -> Mapping[str, str]:
    """Nodes that are kept free, and given back where they are lent, for those next in line that want all of them.

    Args:
        offered: nodes that may be lent.
        shadow: what the site's jobs would do.
        snapshot: what there is.
        rules: how soon the end has to be expected, and which jobs are fragments.
        rooms: what is left of each node, where nodes are lent in parts.

    Returns:
        Node → why.
    """
    plans = [plan for plan in first_in_line(shadow, snapshot).values() if plan.part is None]
    if not plans:
        return {}
    names = frozenset(offer.node for offer in offered)
    clear = frozenset(name for name in names if not (rooms and name in rooms and rooms[name].used_by_site))
    jobs_on = Counter(name for job in _running(snapshot, rules) for name in job.nodes)
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
    """The site's jobs that run."""
    return (job for job in snapshot.site_jobs(rules.queue) if job.state is JobState.RUNNING)


def _ending(snapshot: Snapshot, rules: NodeRules) -> list[Job]:
    """Jobs whose end is expected soon."""
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
