"""Where a job could run, and when the running ones end, as if no fragment existed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import inf

from freetrain.core.cluster import Job, JobState, Nodes, NodeState, Partition, Snapshot
from freetrain.core.needs import meets_constraint
from freetrain.lending.shadow.node_sets import NodeSet, NodeSets, closest

_UNLIMITED_S = 365 * 86400.0
"""What Slurm takes for the limit of a job that has none."""


class Machine:
    """All nodes, as the site's jobs would find them.

    Args:
        snapshot: what there is.
        fragments: jobs that do not exist here.
        lent: nodes that fragments have and keep.

    Attributes:
        sets: sets of its nodes.
    """

    def __init__(self, snapshot: Snapshot, fragments: frozenset[str], lent: Iterable[str]) -> None:
        self._snapshot = snapshot
        self.sets = NodeSets([node.name for node in snapshot.nodes])
        self._known: dict[tuple[str, str], NodeSet] = {}
        self._usable = self.sets.of(node.name for node in snapshot.nodes if node.starts_jobs)
        self._free_from = {**dict.fromkeys(_hidden(snapshot, lent), inf), **_free_from(snapshot, fragments)}
        self._leaving = self.sets.of(
            name
            for job in snapshot.jobs
            if job.state is JobState.COMPLETING and job.id not in fragments
            for name in job.nodes
        )

    def limit_s(self, job: Job) -> float:
        """For how long the job may run."""
        return min([job.limit_s, _UNLIMITED_S, *(one.max_time_s for one in partitions_of(job, self._snapshot))])

    def possible(self, job: Job) -> NodeSet:
        """Nodes that the job could ever run on: in its partitions, with its features, and those that it names."""
        wanted = (job.partition, job.features)
        if wanted not in self._known:
            node = self._snapshot.node
            reachable = frozenset().union(*(one.nodes for one in partitions_of(job, self._snapshot)))
            # A constraint that is not understood is taken to be met: rather a node too many is kept free.
            self._known[wanted] = self._usable & self.sets.of(
                name
                for name in reachable
                if name in node and meets_constraint(job.features, node[name].features) is not False
            )
        known = self._known[wanted]
        return known & self.sets.of(job.required_nodes) if job.required_nodes else known

    def releases(self) -> tuple[list[float], list[NodeSet]]:
        """Moments from now on at which running jobs end, and the nodes that none of them has then."""
        leaving: dict[float, list[str]] = {self._snapshot.time_s: []}
        for name, end_s in self._free_from.items():
            leaving.setdefault(end_s, []).append(name)
        free = self.sets.all & ~self.sets.of(self._free_from)
        moments_s = sorted(end_s for end_s in leaving if end_s < inf)
        sets = []
        for moment_s in moments_s:
            free |= self.sets.of(leaving[moment_s])
            sets.append(free)
        return moments_s, sets

    def choose(self, nodes: NodeSet, count: int, job: Job) -> NodeSet:
        """As many: those on which Slurm has planned the job, or those that fit closest."""
        planned = self.sets.of(job.planned_nodes)
        if planned.bit_count() == count and planned & nodes == planned:
            return planned
        return closest(nodes, count)

    def choose_now(self, nodes: NodeSet, count: int, job: Job, lent: Mapping[str, str]) -> NodeSet:
        """As many: those that nobody has, then lent ones, then those being cleared up after a job of the site's.

        Of the lent ones those on which Slurm has planned the job come first, then those of whoever has most.
        """
        ours = nodes & self.sets.of(lent)
        chosen = closest(nodes & ~ours & ~self._leaving, count)
        chosen |= closest(ours & self.sets.of(job.planned_nodes), count - chosen.bit_count())
        left = sorted(self.sets.names(ours & ~chosen))
        chosen |= self.sets.of(_from_largest(left, lent, count - chosen.bit_count()))
        return chosen | closest(nodes & self._leaving, count - chosen.bit_count())


def partitions_of(job: Job, snapshot: Snapshot) -> list[Partition]:
    """The partitions in which it may run."""
    listed = (snapshot.partitions.get(name) for name in job.partition.split(","))
    return [one for one in listed if one is not None and one.is_up]


def _free_from(snapshot: Snapshot, fragments: frozenset[str]) -> Mapping[str, float]:
    """Node that one of the site's jobs has → when it is free; one whose limit is over is so at any moment."""
    free_from: dict[str, float] = {}
    soon_s = snapshot.time_s + 1.0
    for job in snapshot.jobs:
        if job.state.has_nodes and job.id not in fragments and job.state is not JobState.COMPLETING:
            end_s = inf if job.end_s is None else max(job.end_s, soon_s)
            for name in job.nodes:
                free_from[name] = max(free_from.get(name, 0.0), end_s)
    return free_from


def _hidden(snapshot: Snapshot, lent: Iterable[str]) -> Nodes:
    """Nodes that somebody has whose job is not shown: nobody knows until when."""
    seen = frozenset(lent).union(*(job.nodes for job in snapshot.jobs if job.state.has_nodes))
    return frozenset(
        node.name for node in snapshot.nodes if node.state is NodeState.BUSY and node.name not in seen
    )


def _from_largest(names: Sequence[str], lent: Mapping[str, str], count: int) -> list[str]:
    """The last node of whichever trainer has most left, again and again."""
    held: dict[str, list[str]] = {}
    for name in names:
        held.setdefault(lent[name], []).append(name)
    return [max(held.values(), key=len).pop() for _ in range(min(count, len(names)))]
