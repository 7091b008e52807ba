"""What lies idle of nodes beside their jobs, and for how many tasks there is room."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from freetrain.core.amounts import Amount
from freetrain.core.holes import Holes


@dataclass(frozen=True, slots=True)
class TaskAsked:
    """A task of which one wants to know how many would have fit beside the jobs of partly used nodes.

    Attributes:
        each: what it asks for; of GPUs any type.
        keep: what is kept back of each node.
        shortest_s: for how long its place must be there.
    """

    each: Amount
    keep: Amount = field(default_factory=Amount)
    shortest_s: float = 0.0

    @property
    def words(self) -> str:
        """What it asks for, as ``1 GPU, 4 CPUs, 16 GiB``."""
        each, gib = self.each, self.each.memory_mb / 1024
        counted = ((each.gpus, "GPU"), (max(each.cpus, 1), "CPU"))
        named = [f"{number} {what}{'s' if number > 1 else ''}" for number, what in counted if number]
        return ", ".join([*named, *([f"{gib:g} GiB"] if gib else [])])


@dataclass(frozen=True, slots=True)
class IdlePart:
    """How much of one resource of partly used nodes no job held, by node.

    Attributes:
        size: how much of it each node has, shape (nodes,).
        idle_s: what no job held × seconds, shape (nodes,).
        unknown_s: seconds of which the log does not say how much was held; they are not in ``idle_s``.
        is_least: sizes are, of some nodes, what jobs were seen to hold at once: the nodes may have more.
    """

    size: NDArray[np.float64]
    idle_s: NDArray[np.float64]
    unknown_s: NDArray[np.float64]
    is_least: bool

    def of(self, nodes: NDArray[np.intp]) -> IdlePart:
        """The same of these nodes alone."""
        return IdlePart(self.size[nodes], self.idle_s[nodes], self.unknown_s[nodes], self.is_least)


@dataclass(frozen=True, slots=True)
class TaskRoom:
    """For how many tasks of one kind there was room.

    Attributes:
        task: of which kind.
        on_empty: how many fit on each node while it has no jobs, shape (nodes,).
        node: a node that has jobs, by position, shape (stretches,).
        start_s: since when, UTC epoch seconds; stretches of one node do not overlap.
        end_s: until when.
        tasks: so many fit beside these jobs, at least one.
        sizes: CPUs, bytes of memory and GPUs of each node, 0 where they are not counted, shape (nodes, 3).
        ignored: what the task asks for and the log says of no job; that is not asked for.
    """

    task: TaskAsked
    on_empty: NDArray[np.int64]
    node: NDArray[np.int32]
    start_s: NDArray[np.float64]
    end_s: NDArray[np.float64]
    tasks: NDArray[np.int64]
    sizes: NDArray[np.float64]
    ignored: tuple[str, ...] = ()

    def of(self, nodes: NDArray[np.intp]) -> TaskRoom:
        """The same of these nodes alone, in this order."""
        new = np.full(len(self.on_empty), -1, np.int32)
        new[nodes] = np.arange(len(nodes), dtype=np.int32)
        its = new[self.node] >= 0
        rows = (new[self.node[its]], self.start_s[its], self.end_s[its], self.tasks[its])
        return TaskRoom(self.task, self.on_empty[nodes], *rows, self.sizes[nodes], self.ignored)


@dataclass(frozen=True, slots=True)
class Places:
    """Room for one task each: a node on which three tasks fit at most has three places.

    The second of them is there as long as two tasks fit or more, whatever fits beside them; none is there for less
    than the task's ``shortest_s``.

    Attributes:
        task: of which kind.
        holes: when each is there; the places are the nodes of these.
        node: on which node each is, by position, shape (places,).
        beside_jobs_s: of each node seconds × places that were there while it had jobs, shape (nodes,).
        idle_nodes_s: and while it had none.
        sizes: CPUs, bytes of memory and GPUs of each node, 0 where they are not counted, shape (nodes, 3).
    """

    task: TaskAsked
    holes: Holes
    node: NDArray[np.int32]
    beside_jobs_s: NDArray[np.float64]
    idle_nodes_s: NDArray[np.float64]
    sizes: NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class IdleShares:
    """What lay idle on partly used nodes: those in service that have jobs, and a CPU that none of these holds.

    Attributes:
        node_names: the nodes.
        partly_used_s: for how long each was partly used, shape (nodes,).
        cpus: their CPUs.
        memory_bytes: their memory; None: the log does not say what jobs held of it.
        gpus: their GPUs; None: no job held any, as far as the log says.
        gpu_types: of each node the types of GPUs that jobs held there, joined by +; empty: none is known.
        spread: part of the held CPU time that jobs on several nodes held; of these the log tells the sum alone,
            and they count as if they held as much of each node.
        room: for how many tasks there was room there; None: that was not asked.
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
        """The same of these nodes alone, in this order."""
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
