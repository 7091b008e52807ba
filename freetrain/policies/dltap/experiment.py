"""DLTAP's experiment: how many pairs of server and worker end up on different nodes."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator

from freetrain.policies.dltap.placer import (
    KUBERNETES,
    LEAF_AWARE,
    PAPER,
    Host,
    PlacedTask,
    TaskKind,
    Weights,
    crossing_pairs,
    place_tasks,
)
from freetrain.policies.experiment import Experiment, MethodFigures

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
