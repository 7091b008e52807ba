"""DLTAP's experiment: how many pairs of server and worker end up on different nodes.

A task, parameter server or worker, goes to the node with the highest score, whole numbers of 0 to 11 as Kubernetes
1.2 and DLTAP's published code give them.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from benchmarks.experiments.comparing import Experiment, MethodFigures
from freetrain.policies.dltap import aggregation_score

Whole = NDArray[np.int64]
TaskAmounts = NDArray[np.float64]


def least_requested(asked: TaskAmounts, size: TaskAmounts) -> Whole:
    """Scores of nodes, 0 to 10: emptiness, the mean of CPUs and memory (shape (nodes, 2)), rounded down."""
    # A quotient that is whole but for rounding must not lose a point: scores are whole numbers.
    free = np.floor(10 * (size - asked) / size + 1e-9).astype(np.int64)
    return np.asarray(free.sum(axis=1) // 2, dtype=np.int64)


def balanced(asked: TaskAmounts, size: TaskAmounts) -> Whole:
    """Scores of nodes, 0 to 10: how equally CPUs and memory would be used; 0 where either is used up."""
    used = asked / size
    apart = np.abs(used[:, 0] - used[:, 1])
    score = np.floor(10 - 10 * apart + 1e-9).astype(np.int64)
    return np.where((used >= 1).any(axis=1), 0, score)


def spreading(own_tasks: Whole) -> Whole:
    """Scores of nodes, 0 to 10: the fewer tasks of the same training a node has, the better."""
    most = int(own_tasks.max(initial=0))
    return 10 * (most - own_tasks) // most if most else np.full_like(own_tasks, 10)


class TaskKind(StrEnum):
    """The role of a task."""

    WORKER = "worker"
    SERVER = "server"
    """A parameter server: it exchanges parameters with every worker, and no other pair does."""


@dataclass(frozen=True, slots=True)
class PlacedTask:
    """A task, and what it asks of its node."""

    kind: TaskKind
    cpus: float
    memory_gb: float


@dataclass(frozen=True, slots=True)
class Host:
    """A node."""

    name: str
    cpus: float
    memory_gb: float
    used_cpus: float = 0.0
    used_memory_gb: float = 0.0
    leaf: str = ""


@dataclass(frozen=True, slots=True)
class Weights:
    """Weights of the scores.

    Attributes:
        aggregation: the share of the task's peers on the node; the peers of a server are the workers.
        leaf: the share of the peers on the node's leaf; freetrain's addition.
        all_are_peers: workers aggregate, too: all tasks of a training are peers. freetrain's addition.
    """

    aggregation: int = 0
    least_requested: int = 1
    balanced: int = 1
    spreading: int = 1
    leaf: int = 0
    all_are_peers: bool = False


KUBERNETES = Weights()
"""Weights of the scheduler that DLTAP was built into, without DLTAP."""
PAPER = Weights(aggregation=1)
"""Weights of DLTAP as published."""
LEAF_AWARE = Weights(aggregation=5, leaf=5, all_are_peers=True)
"""Weights that bring tasks near each other: on one node, else on one leaf."""


def place_tasks(tasks: Sequence[PlacedTask], hosts: Sequence[Host], weights: Weights) -> tuple[int | None, ...]:
    """Position of the host of each task, one task after the other; None: none has room for it.

    Servers follow workers only where these come first. Equal scores: the least free CPUs, then the first host.
    """
    return _PlacingBoard(tasks, hosts, weights).place()


class _PlacingBoard:
    def __init__(self, tasks: Sequence[PlacedTask], hosts: Sequence[Host], weights: Weights) -> None:
        self._tasks = tasks
        self._weights = weights
        self._size = np.array([[host.cpus, host.memory_gb] for host in hosts])
        self._used = np.array([[host.used_cpus, host.used_memory_gb] for host in hosts])
        leaves = {leaf: number for number, leaf in enumerate(dict.fromkeys(host.leaf for host in hosts))}
        self._leaf = np.array([leaves[host.leaf] for host in hosts])
        self._placed = {kind: np.zeros(len(hosts), dtype=np.int64) for kind in TaskKind}

    def place(self) -> tuple[int | None, ...]:
        found: list[int | None] = []
        for task in self._tasks:
            asked = self._used + np.array((task.cpus, task.memory_gb))
            fits = (asked <= self._size).all(axis=1)
            if not fits.any():
                found.append(None)
                continue
            scores = np.where(fits, self._scores(task, asked), -1)
            free_cpus = self._size[:, 0] - asked[:, 0]
            # Highest score, then least free CPUs; lexsort is stable, so the first host of equals.
            best = int(np.lexsort((free_cpus, -scores))[0])
            self._used[best] += (task.cpus, task.memory_gb)
            self._placed[task.kind][best] += 1
            found.append(best)
        return tuple(found)

    def _scores(self, task: PlacedTask, asked: np.ndarray[tuple[int, int], np.dtype[np.float64]]) -> Whole:
        weights, (here, peers) = self._weights, self._peers(task)
        on_leaf = np.bincount(self._leaf, weights=here, minlength=int(self._leaf.max()) + 1)[self._leaf]
        scores: Whole = (
            weights.aggregation * aggregation_score(here, peers)
            + weights.leaf * (10 * on_leaf.astype(np.int64) // max(peers, 1))
            + weights.least_requested * least_requested(asked, self._size)
            + weights.balanced * balanced(asked, self._size)
            + weights.spreading * spreading(sum(self._placed.values(), np.zeros_like(here)))
        )
        return scores

    def _peers(self, task: PlacedTask) -> tuple[Whole, int]:
        """The task's peers on each node so far, and the number of all of them."""
        workers = self._placed[TaskKind.WORKER]
        if self._weights.all_are_peers:
            return workers + self._placed[TaskKind.SERVER], len(self._tasks) - 1
        if task.kind is TaskKind.SERVER:
            return workers, sum(peer.kind is TaskKind.WORKER for peer in self._tasks)
        return np.zeros_like(workers), 0


def crossing_pairs(tasks: Sequence[PlacedTask], where: Sequence[object]) -> tuple[int, int]:
    """Pairs of server and worker that are in different places, and all pairs; tasks without one are left out."""
    placed = [(task.kind, place) for task, place in zip(tasks, where, strict=True) if place is not None]
    servers = [place for kind, place in placed if kind is TaskKind.SERVER]
    workers = [place for kind, place in placed if kind is TaskKind.WORKER]
    return sum(server != worker for server in servers for worker in workers), len(servers) * len(workers)


_PlacedTraining = tuple[tuple[PlacedTask, ...], tuple[Host, ...]]

_JOBS = 150
_NODES_PER_LEAF = 4
_NODES = (6, 10, 20, 50)

_WAYS: dict[str, tuple[Weights, bool]] = {
    "Kubernetes": (KUBERNETES, False),
    "DLTAP": (PAPER, False),
    "DLTAP, servers first": (PAPER, True),
    "no spreading": (Weights(spreading=0), False),
    "no spreading, DLTAP": (Weights(aggregation=1, spreading=0), False),
    "packing": (Weights(least_requested=-1, balanced=0, spreading=0), False),
    "leaf-aware": (LEAF_AWARE, False),
}
"""Way to place → its weights, and whether servers are placed before workers."""

_COMPARED = (
    ("DLTAP", "Kubernetes"),
    ("DLTAP, servers first", "Kubernetes"),
    ("no spreading, DLTAP", "no spreading"),
    ("DLTAP", "packing"),
    ("leaf-aware", "packing"),
)


def _run(seed: int) -> Iterator[MethodFigures]:
    """Trainings of 2 to 8 workers and 1 or 2 servers, each placed on nodes that others use, too."""
    for nodes in _NODES:
        trainings = list(_trainings(random.Random(f"{nodes}/{seed}"), nodes))
        apart = {name: _share_apart(trainings, *way) for name, way in _WAYS.items()}
        yield MethodFigures(f"{nodes} nodes", "apart", apart)


EXPERIMENT = Experiment(
    f"DLTAP: share of server-worker pairs on different nodes, {_JOBS} trainings",
    _run,
    _COMPARED,
    (
        "Kubernetes: the scores of 1.2 (least requested, balanced, spread over nodes); packing: the fullest "
        "node that has room; no spreading: without the third score.",
        "Each node has 50 CPUs and 50 GB, of which up to 14 tasks of other jobs use some; "
        f"{_NODES_PER_LEAF} nodes are on a leaf.",
        "leaf-aware is freetrain's: all tasks attract each other, weight 5, then those of the leaf.",
        "DLTAP's paper reports 12 % less traffic between nodes, mean of three benchmarks.",
    ),
    less_is_better=True,
)


def _share_apart(trainings: Iterable[_PlacedTraining], weights: Weights, servers_first: bool) -> float:
    apart, pairs = 0, 0
    for tasks, hosts in trainings:
        ordered = tuple(reversed(tasks)) if servers_first else tasks
        crossing, all_pairs = crossing_pairs(ordered, place_tasks(ordered, hosts, weights))
        apart, pairs = apart + crossing, pairs + all_pairs
    return apart / pairs


def _trainings(draw: random.Random, nodes: int) -> Iterator[_PlacedTraining]:
    """Trainings with their workers before their servers, each with the nodes as it finds them."""
    for _ in range(_JOBS):
        workers = [PlacedTask(TaskKind.WORKER, 5, 5)] * draw.randint(2, 8)
        servers = [PlacedTask(TaskKind.SERVER, 5, 5)] * draw.randint(1, 2)
        yield (*workers, *servers), tuple(_host(draw, number) for number in range(nodes))


def _host(draw: random.Random, number: int) -> Host:
    # Other jobs' load as in the simulator of DLTAP's author: up to 14 tasks of up to three containers.
    containers = [
        (draw.randint(0, 9), draw.randint(0, 9))
        for _ in range(draw.randint(0, 14))
        for _ in range(draw.randint(1, 3))
    ]
    cpus, memory_gb = 0, 0
    for more_cpus, more_gb in containers:
        if cpus + more_cpus <= 50 and memory_gb + more_gb <= 50:
            cpus, memory_gb = cpus + more_cpus, memory_gb + more_gb
    return Host(f"n{number}", 50, 50, cpus, memory_gb, f"leaf{number // _NODES_PER_LEAF}")
