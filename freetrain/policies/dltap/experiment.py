"""DLTAP's experiment: how many pairs of server and worker end up on different nodes."""

from __future__ import annotations

import random
from collections.abc import Iterator

from freetrain.policies.dltap.tasks import (
    KUBERNETES,
    LEAF_AWARE,
    PAPER,
    Host,
    Kind,
    Task,
    Weights,
    crossing_pairs,
    place_tasks,
)
from freetrain.policies.experiment import Table

_JOBS = 150
_NODES_PER_LEAF = 4
_NODES = (6, 10, 20, 50)

_WAYS: dict[str, tuple[Weights, bool]] = {
    "default": (KUBERNETES, False),
    "DLTAP": (PAPER, False),
    "DLTAP, servers first": (PAPER, True),
    "no spreading": (Weights(spreading=0), False),
    "no spreading, DLTAP": (Weights(aggregation=1, spreading=0), False),
    "leaf-aware": (LEAF_AWARE, False),
}
"""Way to place → its weights, and whether servers are placed before workers."""


def run(seeds: int = 12) -> Table:
    """Trainings of 2 to 8 workers and 1 or 2 servers, each placed on nodes that others use, too."""
    rows = [row for nodes in _NODES for row in _rows(nodes, seeds)]
    return Table(
        f"Share of server-worker pairs on different nodes: {_JOBS} trainings, {seeds} seeds",
        ("nodes", "placed by", "on other nodes", "change", "on other leaves"),
        tuple(rows),
        (
            "default: Kubernetes 1.2's scores (least requested, balanced, spread over nodes); change: against it.",
            "Each node has 50 CPUs and 50 GB, of which up to 14 tasks of others use some; "
            f"{_NODES_PER_LEAF} nodes are on a leaf.",
            "leaf-aware is freetrain's: all tasks attract each other, weight 5, then those of the leaf.",
        ),
    )


def _rows(nodes: int, seeds: int) -> Iterator[tuple[str | int | float, ...]]:
    default = 0.0
    for name, (weights, servers_first) in _WAYS.items():
        apart, apart_leaves, pairs = 0, 0, 0
        for seed in range(seeds):
            for tasks, hosts in _trainings(random.Random(f"{nodes}/{seed}"), nodes):
                ordered = tuple(reversed(tasks)) if servers_first else tasks
                where = place_tasks(ordered, hosts, weights)
                crossing, all_pairs = crossing_pairs(ordered, where)
                leaves = [None if place is None else hosts[place].leaf for place in where]
                apart, pairs = apart + crossing, pairs + all_pairs
                apart_leaves += crossing_pairs(ordered, leaves)[0]
        share = apart / pairs
        default = default or share
        yield nodes, name, round(share, 3), f"{share / default - 1:+.1%}", round(apart_leaves / pairs, 3)


def _trainings(draw: random.Random, nodes: int) -> Iterator[tuple[tuple[Task, ...], tuple[Host, ...]]]:
    """Trainings with their workers before their servers, each with the nodes as it finds them."""
    for _ in range(_JOBS):
        workers = [Task(Kind.WORKER, 5, 5)] * draw.randint(2, 8)
        servers = [Task(Kind.SERVER, 5, 5)] * draw.randint(1, 2)
        yield (*workers, *servers), tuple(_host(draw, number) for number in range(nodes))


def _host(draw: random.Random, number: int) -> Host:
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
