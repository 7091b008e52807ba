"""The site's own side of a log: which nodes are idle, which jobs wait and run, from event to event."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import inf
from types import MappingProxyType

import numpy as np

from freetrain.core.amounts import Amount
from freetrain.core.cluster import Snapshot
from freetrain.core.holes import Holes
from freetrain.core.job import Job, JobState
from freetrain.core.node import Node, NodeState, Partition
from freetrain.replay.as_daemon.shared_nodes import SharedNodes
from freetrain.replay.logs import LoggedJobs
from freetrain.replay.node_changes import NodeChange, node_changes
from freetrain.replay.node_groups import nodes_by_partition


@dataclass(frozen=True, slots=True)
class Start:
    """One of the site's jobs starts.

    Attributes:
        job: its id; empty where the log tells of nodes only.
        nodes: its nodes, as far as they were idle; where jobs share nodes, all of them.
    """

    job: str
    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Happened:
    """What happens on the site's side at one instant.

    Attributes:
        submitted: whether jobs come.
        ended: whether jobs end, or nodes become idle.
        starts: jobs that start.
        failed: idle nodes that go out of service.
        changes_idle: whether other nodes are idle than before, or other parts of nodes.
    """

    submitted: bool = False
    ended: bool = False
    starts: tuple[Start, ...] = ()
    failed: tuple[str, ...] = ()
    changes_idle: bool = False

    def __bool__(self) -> bool:
        """Whether anything does."""
        return self.submitted or self.ended or bool(self.starts) or bool(self.failed)


class LoggedSite:
    """The site at one instant. Jobs are known as Slurm would have shown them: their actual ends never are.

    Args:
        holes: when nodes are idle.
        logged: the jobs; None: the log tells of nodes only.
        partition: freetrain's.
        shared: what jobs have of nodes that are lent in parts; None: nodes are lent whole.
        shows_waiting: whether jobs are seen while they wait.

    Attributes:
        idle: nodes that nobody of the site's has.
        kind_of: node → its kind, which Slurm would have shown as a feature.
    """

    def __init__(
        self,
        holes: Holes,
        logged: LoggedJobs | None,
        partition: str,
        shared: SharedNodes | None = None,
        shows_waiting: bool = True,
    ) -> None:
        self._shared = shared
        self._shows_waiting = shows_waiting
        self._from_s = holes.from_s
        self._changes = node_changes(holes)
        self._change: NodeChange | None = next(self._changes, None)
        self._logged = logged
        self._names = holes.node_names
        self._job_events = iter(_job_events(logged, holes) if logged is not None else ())
        self._job_event = next(self._job_events, None)
        self._jobs: dict[str, Job] = {}
        self.kind_of = holes.kind_of
        features = {name: frozenset({kind}) for name, kind in holes.kind_of.items()}
        self._idle, self._busy = (
            {name: Node(name, state, said, features=features.get(name, frozenset())) for name in holes.node_names}
            for state, said in ((NodeState.IDLE, "IDLE"), (NodeState.BUSY, "ALLOCATED"))
        )
        # Where no job is known a busy node tells the judge nothing.
        self._nodes = dict(self._busy) if logged is not None else {}
        self._partitions = _partitions(holes, logged, partition)
        self.idle: set[str] = set()

    @property
    def tells_of_jobs(self) -> bool:
        """Whether the log does."""
        return self._logged is not None

    @property
    def somebody_waits(self) -> bool:
        """Whether a job waits for its turn."""
        return self._shows_waiting and any(job.state is JobState.PENDING for job in self._jobs.values())

    @property
    def next_s(self) -> float:
        """When something happens next."""
        change_s = min(self._change.at_s if self._change else inf, self._shared.next_s if self._shared else inf)
        return min(change_s, self._job_event[0] if self._job_event else inf)

    def advance(self, now_s: float) -> Happened:
        """Take in all that happens until now."""
        started: list[Start] = []
        kinds: set[int] = set()
        while self._job_event is not None and self._job_event[0] <= now_s:
            _, kind, row = self._job_event
            self._take_in(kind, row, started)
            kinds.add(kind)
            self._job_event = next(self._job_events, None)
        starting = {name: one.job for one in started for name in one.nodes}
        taken: defaultdict[str, list[str]] = defaultdict(list)
        changes_idle = self._shared is not None and bool(kinds - {_SUBMITTED})
        while self._change is not None and self._change.at_s <= now_s:
            for name in self._change.left:
                taken[starting.get(name, "")].append(name)
            changes_idle = True
            if self._change.joined:
                kinds.add(_ENDED)
            self._move(self._change)
            self._change = next(self._changes, None)
        # Where jobs are known, a node that none of them takes is down, drained or reserved.
        failed = tuple(taken.pop("", ())) if self.tells_of_jobs else ()
        starts = tuple(Start(job, tuple(names)) for job, names in taken.items())
        if self._shared is not None:
            self._shared.advance(now_s)
            starts = tuple(started) if now_s >= self._from_s else ()
        return Happened(_SUBMITTED in kinds, _ENDED in kinds, starts, failed, changes_idle)

    def delay(self, job: str, delay_s: float) -> None:
        """A job really starts so much later; when it ends the log says all the same."""
        if job in self._jobs:
            known = self._jobs[job]
            self._jobs[job] = replace(known, start_s=(known.start_s or 0.0) + delay_s)

    def snapshot(self, now_s: float, lent: Mapping[str, Amount] = MappingProxyType({})) -> Snapshot:
        """What Slurm would have shown.

        Args:
            now_s: UTC epoch seconds.
            lent: node → what fragments have of it.
        """
        partitions = self._partitions
        if self._logged is None:
            partitions = {name: replace(one, nodes=frozenset(self._nodes)) for name, one in partitions.items()}
        nodes = self._nodes.values()
        shown = (self._shared.shown(one, lent.get(one.name, _NOTHING)) for one in nodes) if self._shared else nodes
        jobs = self._jobs.values()
        known = jobs if self._shows_waiting else (job for job in jobs if job.state is not JobState.PENDING)
        return Snapshot(now_s, tuple(shown), tuple(known), partitions=partitions)

    def _take_in(self, kind: int, row: int, started: list[Start]) -> None:
        logged = self._logged
        assert logged is not None
        id_ = f"{logged.ids[row]}@{row}"  # a requeued job has several rows
        names = [self._names[number] for number in logged.nodes_of(row).tolist()]
        if kind == _SUBMITTED:
            waiting = _waiting(logged, row, id_)
            self._jobs[id_] = replace(waiting, asks=self._shared.asks(row)) if self._shared else waiting
        elif kind == _STARTED:
            if self._shared is not None:
                self._shared.begin(row, names, self._jobs[id_].asks)
            started.append(Start(id_, tuple(names)))
            start_s, limit_s = float(logged.start_s[row]), float(logged.limit_s[row])
            self._jobs[id_] = replace(
                self._jobs.pop(id_), state=JobState.RUNNING, nodes=frozenset(names), start_s=start_s,
                end_s=start_s + limit_s if limit_s < inf else None,
            )  # fmt: skip
        else:
            self._jobs.pop(id_, None)
            if self._shared is not None:
                self._shared.end(row, names)

    def _move(self, change: NodeChange) -> None:
        for name in change.left:
            self.idle.discard(name)
            if self._logged is None:
                self._nodes.pop(name, None)
            else:
                self._nodes[name] = self._busy[name]
        for name in change.joined:
            self.idle.add(name)
            self._nodes[name] = self._idle[name]


_SUBMITTED, _STARTED, _ENDED = range(3)
_NOTHING = Amount()


def _job_events(logged: LoggedJobs, holes: Holes) -> list[tuple[float, int, int]]:
    """(when, what, row of the job) of the jobs that wait or run within the window, in order.

    A job that starts as it is submitted is submitted first.
    """
    rows = np.flatnonzero((logged.end_s > holes.from_s) & (logged.submit_s < holes.until_s))
    kinds = (_SUBMITTED, logged.submit_s), (_STARTED, logged.start_s), (_ENDED, logged.end_s)
    return sorted(
        (at_s, kind, row)
        for kind, times_s in kinds
        for row, at_s in zip(rows.tolist(), times_s[rows].tolist(), strict=True)
        if at_s < inf
    )


def _waiting(logged: LoggedJobs, row: int, id_: str) -> Job:
    return Job(
        id_, id_, "site", logged.partition_of(row), JobState.PENDING, node_count=len(logged.nodes_of(row)),
        submitted_s=float(logged.submit_s[row]), limit_s=float(logged.limit_s[row]),
    )  # fmt: skip


def _partitions(holes: Holes, logged: LoggedJobs | None, partition: str) -> dict[str, Partition]:
    """Freetrain's has all nodes; each of the site's those on which its jobs ever ran."""
    found = {partition: Partition(partition, frozenset(holes.node_names))}
    for name, numbers in nodes_by_partition(logged) if logged is not None else ():
        its_own = frozenset(holes.node_names[number] for number in numbers)
        found.setdefault(name, Partition(name, its_own, priority_tier=10))
    return found
