"""What the experiment came to. Pure."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass

import numpy as np

from benchmarks.live.site import Ran
from freetrain.core.holes import Holes, find_holes


@dataclass(frozen=True, slots=True)
class Spread:
    """Median, 95th percentile and largest of some seconds."""

    p50_s: float
    p95_s: float
    max_s: float

    def __str__(self) -> str:
        return f"{self.p50_s:.1f} / {self.p95_s:.1f} / {self.max_s:.1f} s"


def spread(values: Iterable[float]) -> Spread:
    """Of values, at least one."""
    ordered = sorted(values)
    return Spread(statistics.median(ordered), float(np.percentile(ordered, 95, method="nearest")), ordered[-1])


def delays_s(submitted_s: Mapping[str, float], started_s: Mapping[str, float]) -> list[float]:
    """How long each job waited, in the order of submission."""
    return [started_s[id_] - at_s for id_, at_s in sorted(submitted_s.items(), key=lambda item: item[1])]


def holes_of(site: Sequence[Ran], nodes: Sequence[str], from_s: float, until_s: float) -> Holes:
    """What the site's own jobs left of a window."""
    numbers = {name: number for number, name in enumerate(nodes)}
    rows = [(numbers[name], ran.start_s, ran.end_s) for ran in site for name in ran.node_names if name in numbers]
    node, start_s, end_s = (np.array(column) for column in zip(*rows, strict=True))
    return find_holes(
        tuple(nodes), node.astype(np.int32), start_s.astype(float), end_s.astype(float), from_s, until_s
    )


def lent_within_s(fragments: Sequence[Ran], holes: Holes, at_least_s: float) -> tuple[float, float]:
    """Node-seconds lent within the holes of this length and more, and all node-seconds of these holes."""
    runs: dict[str, list[tuple[float, float]]] = {}
    for ran in fragments:
        for name in ran.node_names:
            runs.setdefault(name, []).append((ran.start_s, ran.end_s))
    lent = total = 0.0
    for node, start_s, end_s in zip(holes.node, holes.start_s, holes.end_s, strict=True):
        if end_s - start_s >= at_least_s:
            total += end_s - start_s
            of_node = runs.get(holes.node_names[node], [])
            lent += sum(max(0.0, min(end_s, stop_s) - max(start_s, begin_s)) for begin_s, stop_s in of_node)
    return lent, total


def node_hours(fragments: Iterable[Ran], from_s: float, until_s: float) -> float:
    """Node-hours that the fragments had in a window."""
    return sum(max(0.0, min(ran.end_s, until_s) - max(ran.start_s, from_s)) for ran in fragments) / 3600


def latencies_s(
    site: Sequence[Ran], submitted_s: Mapping[str, float], started_s: Mapping[str, float]
) -> list[float]:
    """How long each job waited although the nodes that it got had none of the site's jobs on them any more.

    Unlike the whole delay this does not depend on the order in which a queue happened to be served: two runs of
    one workload, each as good as the other, may serve it quite differently.

    Args:
        site: runs of the site's jobs.
        submitted_s: when each job of the workload was submitted.
        started_s: when it began, by its own clock.
    """
    runs = {ran.id: ran for ran in site}
    ends: dict[str, list[float]] = {}
    for ran in site:
        for name in ran.node_names:
            ends.setdefault(name, []).append(ran.end_s)
    found = []
    for id_, at_s in submitted_s.items():
        began_s = runs[id_].start_s
        free_s = [end_s for name in runs[id_].node_names for end_s in ends[name] if end_s <= began_s]
        found.append(started_s[id_] - max(at_s, *free_s, 0.0))
    return found


def first_in_line_s(
    site: Sequence[Ran], room: Mapping[str, int], may_use: Mapping[str, Set[str]] = {}
) -> list[float]:
    """How long each job waited once it was first in line and the site's other jobs left it room on enough nodes.

    Who starts before somebody submitted earlier is left out. No other figure is as free of chance: what happened
    before does not matter, and Slurm starts such jobs within 4 s.

    Args:
        site: runs of the site's jobs, all of one priority.
        room: node → how many GPUs it has; 1 where jobs take whole nodes.
        may_use: job → the nodes that it asks for; those that are not there may use all.
    """
    in_order = sorted(site, key=lambda ran: (ran.submitted_s, int(ran.id)))
    waits = []
    for position, ran in enumerate(in_order):
        since_s = max([ran.submitted_s, *(earlier.start_s for earlier in in_order[:position])])
        others = [other for other in site if other is not ran]
        moments = sorted({since_s, *(other.end_s for other in others if since_s < other.end_s <= ran.start_s)})
        for at_s in moments if since_s <= ran.start_s else ():
            free = Counter(room)
            for other in others:
                if other.start_s <= at_s < other.end_s:
                    free.subtract(dict.fromkeys(other.node_names, other.gpus or 1))
            fitting = [name for name in may_use.get(ran.id, room) if free[name] >= (ran.gpus or 1)]
            if len(fitting) >= len(ran.node_names):
                waits.append(ran.start_s - at_s)
                break
    return waits
