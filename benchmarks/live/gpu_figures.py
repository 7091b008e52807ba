"""GPU-seconds of nodes that jobs share: idle, lent and useful. Pure.

Which GPU of a node a job had matters to nobody: each takes those with the lowest numbers of which none of the
site's jobs has any. So a node's last GPUs have the long holes, as if the site had packed its jobs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.live.site import Ran
from freetrain.core.holes import Holes, find_holes

Hole = tuple[str, float, float]
"""A node, and from when until when one of its GPUs has none of the site's jobs."""


@dataclass(frozen=True, slots=True)
class GpuSeconds:
    """What a machine's GPUs did.

    Attributes:
        idle: GPU-seconds that the site's jobs left.
        lent: of these.
        useful: of these, without what each fragment needs to boot.
        in_holes: GPU-seconds in holes of at least this many seconds → all, and those lent.
    """

    idle: float
    lent: float
    useful: float
    in_holes: Mapping[float, tuple[float, float]]


def gpu_seconds(
    site: Sequence[Ran],
    fragments: Sequence[Ran],
    gpus: Mapping[str, int],
    window_s: tuple[float, float],
    boot_s: float,
    at_least_s: Iterable[float],
) -> GpuSeconds:
    """Add up a window.

    Args:
        site: runs of the site's jobs.
        fragments: runs of fragments.
        gpus: node → how many it has.
        window_s: from when to when.
        boot_s: that each fragment needs before it is useful.
        at_least_s: lengths of holes.
    """
    holes = holes_of_gpus(site, gpus, window_s)
    useful = [_later(ran, boot_s) for ran in fragments]
    return GpuSeconds(
        sum(end_s - start_s for _, start_s, end_s in holes),
        lent_within_s(fragments, holes),
        lent_within_s(useful, holes),
        {
            each_s: _within(fragments, [hole for hole in holes if hole[2] - hole[1] >= each_s])
            for each_s in at_least_s
        },
    )


def holes_of_gpus(site: Sequence[Ran], gpus: Mapping[str, int], window_s: tuple[float, float]) -> list[Hole]:
    """What the site's own jobs left of a window, GPU by GPU."""
    names = [f"{node}/{number}" for node, count in gpus.items() for number in range(count)]
    numbers = {name: number for number, name in enumerate(names)}
    rows = [
        (numbers[f"{node}/{gpu}"], start_s, end_s)
        for node, count in gpus.items()
        for gpu, start_s, end_s in _packed([ran for ran in site if node in ran.node_names], count)
    ]
    node, start_s, end_s = (np.array(column) for column in zip(*rows, strict=True)) if rows else (np.empty(0),) * 3
    holes: Holes = find_holes(
        tuple(names), node.astype(np.int32), start_s.astype(float), end_s.astype(float), *window_s
    )
    columns = zip(holes.node.tolist(), holes.start_s.tolist(), holes.end_s.tolist(), strict=True)
    return [(names[each].partition("/")[0], begin_s, stop_s) for each, begin_s, stop_s in columns]


def lent_within_s(fragments: Iterable[Ran], holes: Iterable[Hole]) -> float:
    """GPU-seconds lent: at each moment no more of a node's GPUs than lie in these holes."""
    steps: defaultdict[str, list[tuple[float, int, int]]] = defaultdict(list)
    for node, start_s, end_s in holes:
        steps[node] += [(start_s, 1, 0), (end_s, -1, 0)]
    for ran in fragments:
        for node in ran.node_names:
            steps[node] += [(ran.start_s, 0, ran.gpus), (ran.end_s, 0, -ran.gpus)]
    lent_s = 0.0
    for its in steps.values():
        idle, lent, at_s = 0, 0, 0.0
        for moment_s, more_idle, more_lent in sorted(its):
            lent_s += min(idle, lent) * (moment_s - at_s)
            idle, lent, at_s = idle + more_idle, lent + more_lent, moment_s
    return lent_s


def _within(fragments: Sequence[Ran], holes: Sequence[Hole]) -> tuple[float, float]:
    return sum(end_s - start_s for _, start_s, end_s in holes), lent_within_s(fragments, holes)


def _later(ran: Ran, by_s: float) -> Ran:
    return Ran(
        ran.id, ran.submitted_s, min(ran.start_s + by_s, ran.end_s), ran.end_s, ran.nodes, ran.state, gpus=ran.gpus
    )


def _packed(site: Iterable[Ran], count: int) -> Iterable[tuple[int, float, float]]:
    """GPU by its number, and from when until when one of the site's jobs had it."""
    free_from_s = [0.0] * count
    for ran in sorted(site, key=lambda one: (one.start_s, one.end_s)):
        # Slurm tells whole seconds: one job may end in the second in which the next begins.
        free = sorted(range(count), key=lambda gpu, at_s=ran.start_s: (free_from_s[gpu] > at_s, gpu))  # type: ignore[misc]
        for gpu in free[: ran.gpus]:
            free_from_s[gpu] = ran.end_s
            yield gpu, ran.start_s, ran.end_s
