"""Input and output of a log reader: options, holes, jobs, and idle parts of used nodes."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from freetrain.core.amounts import Amount
from freetrain.core.holes import SECONDS_PER_HOUR, Holes
from freetrain.replay.logs.parsed import RowCount
from freetrain.replay.logs.traces import NO_TRACE, Trace

_MUCH = 0.05
"""Least part of the idle time in empty hours that is a warning, and not only a note."""


@dataclass(frozen=True, slots=True)
class Failures:
    """Failures of nodes: how often they fail, and how long repairs take.

    Attributes:
        every_s: idle time of a node between two failures, on average.
    """

    every_s: float
    repair_s: float


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """Options for reading a log.

    Attributes:
        columns: header of a headerless sacct file.
        delimiter: separator of its columns; None: the one that its header shows.
        trace: names of its columns, where they are not sacct's.
        ignore_partitions: jobs of these partitions are not the site's.
        ignore_accounts: nor are those of these accounts.
        node_states: output of ``sacctmgr show event -P``: when nodes were down or drained.
        reservations: output of ``sacctmgr show reservation -P`` or ``scontrol show reservation``.
        failures: let nodes fail at random; None: only what files say of that counts.
        only_nodes: read the holes of these nodes alone, such as ``0-255`` or ``c[01-16]``.
        from_s: start of the window; the log's own where not given.
        timezone: zone of the times in the log that name none (zoneinfo name).
        task: task of which it is counted how many would have fit beside jobs; None: not asked.
    """

    columns: tuple[str, ...] = ()
    delimiter: str | None = None
    trace: Trace = NO_TRACE
    cluster: str | None = None
    ignore_partitions: tuple[str, ...] = ()
    ignore_accounts: tuple[str, ...] = ()
    node_states: Path | None = None
    reservations: Path | None = None
    failures: Failures | None = None
    skip_empty_hours: bool = False
    nodes: int | None = None
    machine: Path | None = None
    only_nodes: str | None = None
    from_s: float | None = None
    until_s: float | None = None
    timezone: str = "UTC"
    strict: bool = False
    rejects: Path | None = None
    task: TaskRequest | None = None


@dataclass(frozen=True, slots=True)
class EmptyHours:
    """Hours in which at least 95 % of the machine was idle, as it is when nobody may use it.

    Attributes:
        from_s: start of each stretch of such hours, UTC epoch seconds, shape (stretches,).
        idle_node_hours: idle node-hours within them.
        all_idle_node_hours: idle node-hours within the window, these included.
    """

    from_s: NDArray[np.float64]
    until_s: NDArray[np.float64]
    idle_node_hours: float
    all_idle_node_hours: float
    left_out: bool = False

    @property
    def hours(self) -> float:
        """Number of these hours."""
        return float((self.until_s - self.from_s).sum()) / SECONDS_PER_HOUR

    @property
    def share(self) -> float:
        """Their part of the idle time."""
        return self.idle_node_hours / self.all_idle_node_hours

    @property
    def matter(self) -> bool:
        """Whether the figures would be others without them."""
        return self.share >= _MUCH and not self.left_out


@dataclass(frozen=True, slots=True)
class LoggedJobs:
    """The site's jobs that ran within the window, one row each, in order of their starts.

    Attributes:
        partition: of each job the position of its partition among these.
        submit_s: time of their submission, UTC epoch seconds; the start where that is not known.
        end_s: time of their end; inf: they had not ended.
        limit_s: their time limits; inf: none, or none is known.
        begin: job i has ``node[begin[i] : begin[i + 1]]``, shape (jobs + 1,).
        node: positions of nodes among the holes' ``node_names``, job after job.
        held: CPUs, bytes of memory and GPUs that each job had of each of its nodes, shape (jobs, 3); nan: the log
            does not say. None: nobody asked.
    """

    ids: pl.Series
    partition_names: tuple[str, ...]
    partition: NDArray[np.int32]
    submit_s: NDArray[np.float64]
    start_s: NDArray[np.float64]
    end_s: NDArray[np.float64]
    limit_s: NDArray[np.float64]
    begin: NDArray[np.int64]
    node: NDArray[np.int32]
    held: NDArray[np.float64] | None = None

    def __len__(self) -> int:
        return len(self.ids)

    def partition_of(self, row: int) -> str:
        """Partition in which a job ran."""
        return self.partition_names[int(self.partition[row])]

    def nodes_of(self, row: int) -> NDArray[np.int32]:
        """A job's nodes, by position."""
        return self.node[self.begin[row] : self.begin[row + 1]]


@dataclass(frozen=True, slots=True)
class SiteLog:
    """A log that was read.

    Attributes:
        format: "sacct", "SWF" or "node events".
        jobs: jobs that ran within the window; 0 for node events.
        logged: these; None for node events.
        warnings: doubts about the figures, in sentences for the headline.
        empty: the hours in which nearly the whole machine was idle; None if there are none.
        machine: the machine's name; empty where nothing says it.
        timezone: zone of the site's clocks, as far as it was given (zoneinfo name).
        shares: idle parts of nodes that jobs used in part; None: the log does not show it.
        places: room for tasks, there and on nodes without jobs; None: nobody asked, or the log does not show it.
    """

    holes: Holes
    rows: RowCount
    format: str
    packed: bool
    notes: tuple[str, ...]
    jobs: int
    logged: LoggedJobs | None = None
    warnings: tuple[str, ...] = ()
    empty: EmptyHours | None = None
    machine: str = ""
    timezone: str = "UTC"
    shares: IdleShares | None = None
    places: TaskPlaces | None = None


@dataclass(frozen=True, slots=True)
class TaskRequest:
    """A task of which it is counted how many would have fit beside the jobs of partly used nodes.

    Attributes:
        each: amount that it asks for; of GPUs any type.
        keep: amount that is kept back of each node.
        shortest_s: seconds for which its place must be there at least.
    """

    each: Amount
    keep: Amount = field(default_factory=Amount)
    shortest_s: float = 0.0

    @property
    def words(self) -> str:
        """Amount that it asks for in words, as ``1 GPU, 4 CPUs, 16 GiB``."""
        each, gib = self.each, self.each.memory_mb / 1024
        counted = ((each.gpus, "GPU"), (max(each.cpus, 1), "CPU"))
        named = [f"{number} {what}{'s' if number > 1 else ''}" for number, what in counted if number]
        return ", ".join([*named, *([f"{gib:g} GiB"] if gib else [])])


@dataclass(frozen=True, slots=True)
class IdlePart:
    """Idle part of one resource of partly used nodes: what no job held, by node.

    Attributes:
        idle_s: amount that no job held × seconds, shape (nodes,).
        unknown_s: seconds of which the log does not say how much was held; they are not in ``idle_s``.
        is_least: whether sizes are, of some nodes, what jobs were seen to hold at once: they may have more.
    """

    size: NDArray[np.float64]
    idle_s: NDArray[np.float64]
    unknown_s: NDArray[np.float64]
    is_least: bool

    def of(self, nodes: NDArray[np.intp]) -> IdlePart:
        """The part of these nodes."""
        return IdlePart(self.size[nodes], self.idle_s[nodes], self.unknown_s[nodes], self.is_least)


@dataclass(frozen=True, slots=True)
class TaskRoom:
    """Room for tasks of one kind: how many fit, where and when.

    Attributes:
        on_empty: number that fits on each node while it has no jobs, shape (nodes,).
        node: a node that has jobs, by position, shape (stretches,).
        start_s: start of the room, UTC epoch seconds; stretches of one node do not overlap.
        tasks: number that fits beside these jobs, at least one.
        sizes: CPUs, bytes of memory and GPUs of each node, 0 where they are not counted, shape (nodes, 3).
        ignored: resources that the task asks for and the log says of no job; they are not asked for.
    """

    task: TaskRequest
    on_empty: NDArray[np.int64]
    node: NDArray[np.int32]
    start_s: NDArray[np.float64]
    end_s: NDArray[np.float64]
    tasks: NDArray[np.int64]
    sizes: NDArray[np.float64]
    ignored: tuple[str, ...] = ()

    def of(self, nodes: NDArray[np.intp]) -> TaskRoom:
        """The part of these nodes, in this order."""
        new = np.full(len(self.on_empty), -1, np.int32)
        new[nodes] = np.arange(len(nodes), dtype=np.int32)
        its = new[self.node] >= 0
        rows = (new[self.node[its]], self.start_s[its], self.end_s[its], self.tasks[its])
        return TaskRoom(self.task, self.on_empty[nodes], *rows, self.sizes[nodes], self.ignored)


@dataclass(frozen=True, slots=True)
class TaskPlaces:
    """Room for one task each: a node on which three tasks fit at most has three places.

    The second of them is there as long as two tasks fit or more, whatever fits beside them; none is there for less
    than the task's ``shortest_s``.

    Attributes:
        holes: times at which each is there; the places are the nodes of these.
        node: node that each is on, by position, shape (places,).
        beside_jobs_s: of each node seconds × places that were there while it had jobs, shape (nodes,).
        sizes: CPUs, bytes of memory and GPUs of each node, 0 where they are not counted, shape (nodes, 3).
    """

    task: TaskRequest
    holes: Holes
    node: NDArray[np.int32]
    beside_jobs_s: NDArray[np.float64]
    idle_nodes_s: NDArray[np.float64]
    sizes: NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class IdleShares:
    """Idle parts of partly used nodes: those in service that have jobs, and a CPU that none of these holds.

    Attributes:
        memory_bytes: their memory; None: the log does not say what jobs held of it.
        gpus: their GPUs; None: no job held any, as far as the log says.
        gpu_types: of each node the types of GPUs that jobs held there, joined by +; empty: none is known.
        spread: part of the held CPU time that jobs on several nodes held; of these the log tells the sum alone,
            and they count as if they held as much of each node.
    """

    node_names: tuple[str, ...]
    partly_used_s: NDArray[np.float64]
    cpus: IdlePart
    memory_bytes: IdlePart | None
    gpus: IdlePart | None
    gpu_types: tuple[str, ...]
    spread: float
    room: TaskRoom | None = None

    def of(self, node_names: tuple[str, ...]) -> IdleShares:
        """The part of these nodes, in this order."""
        position = {name: number for number, name in enumerate(self.node_names)}
        nodes = np.array([position[name] for name in node_names], np.intp)
        return IdleShares(
            node_names,
            self.partly_used_s[nodes],
            self.cpus.of(nodes),
            self.memory_bytes and self.memory_bytes.of(nodes),
            self.gpus and self.gpus.of(nodes),
            tuple(self.gpu_types[node] for node in nodes.tolist()),
            self.spread,
            self.room and self.room.of(nodes),
        )
