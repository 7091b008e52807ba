"""What the site's own waiting jobs could start on at once: nodes that freetrain leaves to them unasked.

Slurm plans waiting jobs only once per backfill cycle, and needs one more to evict whom it finds in the way. So
nodes are kept free, or given back, for every job that could start now and has not been planned yet.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from freetrain.core.cluster import Job, JobState, Nodes, Snapshot
from freetrain.core.needs import meets_constraint
from freetrain.core.problem import Node as OfferedNode

_READY_REASONS = frozenset({"None", "", "Priority", "Resources", "Prolog", "ReqNodeNotAvail", "Reserved"})
"""Reasons of a job that starts as soon as there are nodes; with any other it waits for something else."""

_MOST_JOBS = 200
"""Who stands further back in the queue than this does not start at once, whatever nodes there are."""


@dataclass(frozen=True, slots=True)
class Claims:
    """What is claimed.

    Attributes:
        nodes: claimed node → why.
        fitting: jobs for which there would be enough nodes if nobody else claimed any.
    """

    nodes: Mapping[str, str]
    fitting: frozenset[str]


def find_claims(
    snapshot: Snapshot,
    offered: Mapping[str, OfferedNode],
    partition: str,
    claim_s: float,
    fitting_since_s: Mapping[str, float],
) -> Claims:
    """The nodes that waiting jobs could start on, in the order of their priority.

    A job that does not start although its nodes have been there for ``claim_s``, whoever else claimed them, has
    had its chance: Slurm looked at all jobs in that time. It waits for something else, and claims nothing more.

    Args:
        snapshot: what there is.
        offered: nodes that could be lent, or are.
        partition: the preemptible one; who waits in no other is none of the site's own jobs.
        claim_s: how long nodes are kept free for a job.
        fitting_since_s: waiting jobs → since when there have been nodes for them.
    """
    free = dict(offered)
    fit = _Fit(snapshot, offered)
    claimed: dict[str, str] = {}
    fitting = set()
    ready = sorted(_ready(snapshot, partition), key=lambda job: (-job.priority, job.submitted_s, job.id))
    for job in ready[:_MOST_JOBS]:
        if len(fit.nodes_for(job)) < job.node_count:
            continue
        fitting.add(job.id)
        if snapshot.time_s - fitting_since_s.get(job.id, snapshot.time_s) < claim_s:
            for name in _pick(job, free, fit):
                del free[name]
                claimed[name] = f"job {job.id} could start here"
    return Claims(claimed, frozenset(fitting))


def _ready(snapshot: Snapshot, partition: str) -> list[Job]:
    """The site's jobs that wait for nothing but nodes and are not planned for later."""
    return [
        job
        for job in snapshot.jobs
        if job.state is JobState.PENDING
        and job.partition != partition
        and job.reason in _READY_REASONS
        and (not job.planned_nodes or job.start_s is None or job.start_s <= snapshot.time_s)
    ]


class _Fit:
    """Which nodes fit which jobs; many jobs want the same, and nodes are looked at once for all of them."""

    def __init__(self, snapshot: Snapshot, offered: Iterable[str]) -> None:
        self._snapshot = snapshot
        self._offered = frozenset(offered)
        self._known: dict[tuple[str, str], Nodes] = {}

    def nodes_for(self, job: Job) -> Nodes:
        """Offered nodes in the job's partitions, with the features that it wants, and those that it names."""
        wanted = (job.partition, job.features)
        if wanted not in self._known:
            self._known[wanted] = self._find(*wanted)
        return self._known[wanted] & job.required_nodes if job.required_nodes else self._known[wanted]

    def _find(self, partitions: str, features: str) -> Nodes:
        known = self._snapshot.partitions
        listed = [known[name] for name in partitions.split(",") if name in known]
        reachable = self._offered & frozenset().union(*(each.nodes for each in listed if each.is_up))
        node = self._snapshot.node
        # A constraint that is not understood is taken to be met: rather a node too many is kept free.
        return frozenset(
            name for name in reachable if meets_constraint(features, node[name].features) is not False
        )


def _pick(job: Job, free: Mapping[str, OfferedNode], fit: _Fit) -> list[str]:
    """Nodes for the job: those that nobody has first, then one after the other from the largest trainers.

    None at all where others have claimed too many of them.
    """
    fitting = fit.nodes_for(job)
    possible = [node for node in free.values() if node.name in fitting]
    if len(possible) < job.node_count:
        return []
    idle = [node.name for node in possible if node.held_by is None]
    return idle[: job.node_count] + _from_largest(possible, job.node_count - len(idle))


def _from_largest(possible: list[OfferedNode], count: int) -> list[str]:
    """The last node of whichever trainer has most left, again and again."""
    held: dict[str, list[str]] = {}
    for node in possible:
        if node.held_by is not None:
            held.setdefault(node.held_by, []).append(node.name)
    return [max(held.values(), key=len).pop() for _ in range(count)]
