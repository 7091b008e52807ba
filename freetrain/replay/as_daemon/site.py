"""The site's own side of a log: which nodes are idle, in whole or in part, and which jobs wait and run."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from math import ceil, inf
from types import MappingProxyType

import numpy as np

from freetrain.core.amounts import GPU, Amount
from freetrain.core.cluster import Snapshot
from freetrain.core.holes import Holes
from freetrain.core.job import Job, JobState
from freetrain.core.needs import Needs
from freetrain.core.node import Node, NodeState, Partition
from freetrain.core.trainer import Trainer
from freetrain.replay.logs.model import LoggedJobs, TaskPlaces
from freetrain.replay.nodes import NodeChange, node_changes, nodes_by_partition
from freetrain.replay.trainers import TaskShapes

_MIB = 2.0**20
_NEARLY = 1e-6
"""Tolerance: sums of jobs spread over several nodes are not exact."""
_SUBMITTED, _STARTED, _ENDED = range(3)
_NOTHING = Amount()


class SharedNodes:
    """Nodes with the parts that the site's jobs have of them at one instant.

    Args:
        logged: the jobs, with what they held.

    Attributes:
        idle: places that were there by the log, lent or not.
        total: node → its size.
        shapes: amount of a node that a task of each trainer takes.
    """

    def __init__(self, node_names: tuple[str, ...], logged: LoggedJobs, places: TaskPlaces) -> None:
        self._logged = logged
        self._position = {name: number for number, name in enumerate(node_names)}
        self._sizes = places.sizes
        self.total = {name: _amount(*places.sizes[row].tolist()) for row, name in enumerate(node_names)}
        self.shapes = TaskShapes(places.task.each, bool((places.sizes[:, 1] > 0).any()))
        self._jobs: dict[str, dict[int, Amount | None]] = {name: {} for name in node_names}
        self._used = dict.fromkeys(node_names, Amount())
        self._shown: dict[str, tuple[Node, Amount, Node]] = {}
        self._changes = node_changes(places.holes)
        self._change = next(self._changes, None)
        self.idle: set[str] = set()

    @property
    def next_s(self) -> float:
        """Time at which places come or go next; inf: they do not."""
        return self._change.at_s if self._change else inf

    def asks(self, row: int) -> Amount | None:
        """Amount that a job has of each of its nodes; None: the log does not say, and it counts as all of it."""
        held, nodes = self._logged.held, self._logged.nodes_of(row)
        assert held is not None
        matters = (self._sizes[nodes] > 0).any(axis=0)
        if np.isnan(held[row][matters]).any():
            return None
        return _amount(*(ceil(amount - _NEARLY) for amount in np.nan_to_num(held[row]).tolist()))

    def needs_of_task(self, besides: Needs, trainer: Trainer) -> Needs:
        """Needs of each task of a trainer: its part of a node, and what the trainer asks for besides."""
        task = self.shapes.of(trainer)
        return replace(
            besides, in_part=True, is_whole=False, cpus=task.cpus, memory_mb=task.memory_mb, gres=task.gres
        )

    def begin(self, row: int, nodes: Iterable[str], part: Amount | None) -> None:
        """Start a job on these nodes."""
        for name in nodes:
            self._jobs[name][row] = part
            self._add_up(name)

    def end(self, row: int, nodes: Iterable[str]) -> None:
        """End a job, if it has begun."""
        for name in nodes:
            if row in self._jobs[name]:
                del self._jobs[name][row]
                self._add_up(name)

    def advance(self, now_s: float) -> None:
        """Take in which places come and go until now."""
        while self._change is not None and self._change.at_s <= now_s:
            self.idle.difference_update(self._change.left)
            self.idle.update(self._change.joined)
            self._change = next(self._changes, None)

    def left_of(self, node: str) -> Amount:
        """Amount that the site's jobs leave of a node."""
        return self.total[node].without(self._used[node])

    def shown(self, node: Node, lent: Amount) -> Node:
        """The node as Slurm would have shown it, with what tasks of trainers have of it."""
        used = self._used[node.name] + lent
        before = self._shown.get(node.name)
        if before is None or before[0] is not node or before[1] != used:
            total = self.total[node.name]
            is_out = node.state is NodeState.BUSY and not self._jobs[node.name]
            shown = replace(
                node, state=NodeState.DOWN if is_out else node.state,
                state_text="DOWN" if is_out else node.state_text,
                cpus=total.cpus, memory_mb=total.memory_mb, gres=total.gres, used=used,
            )  # fmt: skip
            self._shown[node.name] = before = (node, used, shown)
        return before[2]

    def _add_up(self, name: str) -> None:
        parts = self._jobs[name].values()
        total = self.total[name]
        used = total if any(part is None for part in parts) else sum(filter(None, parts), Amount())
        # No more than there is: the log may have jobs hold more than a node has.
        self._used[name] = total.without(total.without(used))
        self._shown.pop(name, None)


def _amount(cpus: float, memory_bytes: float, gpus: float) -> Amount:
    counts = int(cpus + _NEARLY), int(memory_bytes / _MIB + _NEARLY), int(gpus + _NEARLY)
    return Amount(counts[0], counts[1], ((GPU, counts[2]),) if counts[2] else ())


@dataclass(frozen=True, slots=True)
class JobStart:
    """The start of one of the site's jobs.

    Attributes:
        job: its id; empty where the log tells of nodes only.
        nodes: its nodes, as far as they were idle; where jobs share nodes, all of them.
    """

    job: str
    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SiteEvents:
    """Events on the site's side at one instant.

    Attributes:
        ended: whether jobs end, or nodes become idle.
        failed: idle nodes that go out of service.
        changes_idle: whether other nodes are idle than before, or other parts of nodes.
    """

    submitted: bool = False
    ended: bool = False
    starts: tuple[JobStart, ...] = ()
    failed: tuple[str, ...] = ()
    changes_idle: bool = False

    def __bool__(self) -> bool:
        return self.submitted or self.ended or bool(self.starts) or bool(self.failed)


class LoggedSite:
    """The site at one instant. Jobs are known as Slurm would have shown them: their actual ends never are.

    Args:
        logged: the jobs; None: the log tells of nodes only.
        shared: nodes that are lent in parts, with what jobs have of them; None: nodes are lent whole.
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
            {
                name: Node(name, state, state_text, features=features.get(name, frozenset()))
                for name in holes.node_names
            }
            for state, state_text in ((NodeState.IDLE, "IDLE"), (NodeState.BUSY, "ALLOCATED"))
        )
        # Where no job is known a busy node tells the judge nothing.
        self._nodes = dict(self._busy) if logged is not None else {}
        self._partitions = _partitions(holes, logged, partition)
        self.idle: set[str] = set()

    @property
    def tells_of_jobs(self) -> bool:
        """Whether the log tells of jobs."""
        return self._logged is not None

    @property
    def somebody_waits(self) -> bool:
        """Whether a job waits for its turn."""
        return self._shows_waiting and any(job.state is JobState.PENDING for job in self._jobs.values())

    @property
    def next_s(self) -> float:
        """Time of the site's next event; inf: there is none."""
        change_s = min(self._change.at_s if self._change else inf, self._shared.next_s if self._shared else inf)
        return min(change_s, self._job_event[0] if self._job_event else inf)

    def advance(self, now_s: float) -> SiteEvents:
        """Take in all that happens until now."""
        started: list[JobStart] = []
        kinds: set[int] = set()
        while self._job_event is not None and self._job_event[0] <= now_s:
            _, kind, row = self._job_event
            self._take_in(kind, row, started)
            kinds.add(kind)
            self._job_event = next(self._job_events, None)
        starting = {name: start.job for start in started for name in start.nodes}
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
        starts = tuple(JobStart(job, tuple(names)) for job, names in taken.items())
        if self._shared is not None:
            self._shared.advance(now_s)
            starts = tuple(started) if now_s >= self._from_s else ()
        return SiteEvents(_SUBMITTED in kinds, _ENDED in kinds, starts, failed, changes_idle)

    def delay(self, job: str, delay_s: float) -> None:
        """Let a job start so much later; it ends when the log says all the same."""
        if job in self._jobs:
            known = self._jobs[job]
            self._jobs[job] = replace(known, start_s=(known.start_s or 0.0) + delay_s)

    def snapshot(self, now_s: float, lent: Mapping[str, Amount] = MappingProxyType({})) -> Snapshot:
        """Snapshot as Slurm would have shown it, with what fragments have of nodes."""
        partitions = self._partitions
        if self._logged is None:
            partitions = {
                name: replace(partition, nodes=frozenset(self._nodes)) for name, partition in partitions.items()
            }
        nodes = self._nodes.values()
        shown = (
            (self._shared.shown(node, lent.get(node.name, _NOTHING)) for node in nodes) if self._shared else nodes
        )
        jobs = self._jobs.values()
        # What the holes allow must not depend on plans: jobs that wait are hidden there.
        known = jobs if self._shows_waiting else (job for job in jobs if job.state is not JobState.PENDING)
        return Snapshot(now_s, tuple(shown), tuple(known), partitions=partitions)

    def _take_in(self, kind: int, row: int, started: list[JobStart]) -> None:
        logged = self._logged
        assert logged is not None
        # With its row: a requeued job has several.
        id_ = f"{logged.ids[row]}@{row}"
        names = [self._names[number] for number in logged.nodes_of(row).tolist()]
        if kind == _SUBMITTED:
            waiting = _waiting(logged, row, id_)
            self._jobs[id_] = replace(waiting, asks=self._shared.asks(row)) if self._shared else waiting
        elif kind == _STARTED:
            if self._shared is not None:
                self._shared.begin(row, names, self._jobs[id_].asks)
            started.append(JobStart(id_, tuple(names)))
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


def _job_events(logged: LoggedJobs, holes: Holes) -> list[tuple[float, int, int]]:
    """(when, what, row of the job) of the jobs that wait or run within the window, in order."""
    rows = np.flatnonzero((logged.end_s > holes.from_s) & (logged.submit_s < holes.until_s))
    kinds = (_SUBMITTED, logged.submit_s), (_STARTED, logged.start_s), (_ENDED, logged.end_s)
    # By kind at equal instants: a job that starts as it is submitted is submitted first.
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
    """Partitions: freetrain's has all nodes; each of the site's those on which its jobs ever ran."""
    found = {partition: Partition(partition, frozenset(holes.node_names))}
    for name, numbers in nodes_by_partition(logged) if logged is not None else ():
        its_own = frozenset(holes.node_names[number] for number in numbers)
        # A higher tier than freetrain's, as the documentation advises.
        found.setdefault(name, Partition(name, its_own, priority_tier=10))
    return found
