"""DLTAP's placement: of tasks on nodes that other jobs use, too, and of trainers of whole nodes on leaves.

A task, parameter server or worker, goes to the node with the highest score, whole numbers of 0 to 11 as Kubernetes
1.2 and DLTAP's published code give them. For whole nodes the score is that of leaves: a node is the better, the
more of the trainer's other nodes are near it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from freetrain.core.decision import Placement, place
from freetrain.core.problem import Counts, Problem
from freetrain.core.topology import Topology, nodes_by_leaf
from freetrain.policies.stages import leaf_by_leaf, say_leaves

Whole = NDArray[np.int64]
TaskAmounts = NDArray[np.float64]
ScoreT = TypeVar("ScoreT", int, Whole)


def aggregation_score(peers_here: ScoreT, peers: int) -> ScoreT:
    """Score, 1 to 11, for how much of the task's traffic stays on the node, where as many of its peers are."""
    return 10 * peers_here // max(peers, 1) + 1


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


class Dltap:
    """Aggregation degree as DLTAP (ITM Web of Conferences 2017) scores it, of leaves instead of nodes.

    A trainer of whole nodes has one task on each of them, all of them peers: the published score of a node is
    the same everywhere. That of a leaf counts the peers that are on it or still can be.
    """

    def __init__(self, topology: Topology) -> None:
        self._topology = topology

    def place(self, problem: Problem, counts: Counts) -> Placement:
        """Trainers in order of admission, each node after node."""
        return place(problem, counts, self._choose)

    def explain(self, placement: Placement) -> Iterable[str]:
        """A sentence on trainers on several leaves."""
        return say_leaves(placement, self._topology)

    def rate_for_server(self, node: str, nodes: Sequence[str]) -> float:
        """The published score of a server for a leaf instead of a node: 1 to 11, by the workers that are on it.

        Of nodes that all have as many workers the published one, for nodes, is the same everywhere.
        """
        on_leaf = nodes_by_leaf(nodes, self._topology)[self._topology.leaf_of(node)]
        return aggregation_score(on_leaf, len(nodes))

    def _choose(self, there: Sequence[str], count: int, beside: Sequence[str]) -> Sequence[str]:
        tasks = len(beside) + count

        def rank(leaf: str, own: int, free: int, missing: int) -> tuple[int, int, int, str]:
            # The highest score first; then where most of its nodes are, the least room, and the name.
            return (-aggregation_score(own + min(free, missing), tasks), -own, free, leaf)

        return leaf_by_leaf(there, count, beside, self._topology, rank)
