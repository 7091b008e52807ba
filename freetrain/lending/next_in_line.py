"""Next in line: the first waiting job of a partition, once it starts as soon as one more running job ends.

Whatever is lent of its nodes then has to be taken back for it: it starts a second later, and with it all that wait
behind it. So its nodes are kept free, if that end is expected soon.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from freetrain.core.cluster import Job, JobState, Nodes, Snapshot
from freetrain.core.fragment import node_of
from freetrain.core.problem import Offer
from freetrain.lending.rules import NodeRules
from freetrain.lending.shadow import PlannedStart, Shadow

_YOUNG_S = 30.0
"""A job that has just begun is expected to last as long as this at least."""


def nodes_of_next(
    offered: Iterable[Offer], shadow: Shadow, snapshot: Snapshot, rules: NodeRules
) -> Mapping[str, str]:
    """Nodes that are kept free, and given back where they are lent, for those who are next in line → why.

    Args:
        offered: nodes that may be lent.
        shadow: what the site's jobs would do.
        snapshot: what there is.
        rules: how soon the end has to be expected, and which jobs are fragments.
    """
    names = frozenset(node_of(one.name) for one in offered)
    ending = [
        job.nodes
        for job in snapshot.jobs
        if job.state is JobState.RUNNING and not rules.queue.has(job)
        if _left_s(job, snapshot.time_s) < rules.next_within_s
    ]
    kept: dict[str, str] = {}
    for plan in first_in_line(shadow, snapshot).values():
        missing = len(plan.nodes - names)
        reachable = _reachable(plan, snapshot)
        if any(len(nodes & reachable) >= missing for nodes in ending):
            kept |= dict.fromkeys(sorted(plan.nodes & names), f"job {plan.job} is next to start here")
    return kept


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
