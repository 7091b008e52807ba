"""The nodes of a log: when each becomes idle or is taken back, which belong together, and what they take."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from freetrain.core.holes import Holes
from freetrain.core.place import node_of
from freetrain.core.power import PowerDraw
from freetrain.replay.logs.model import LoggedJobs, SiteLog


@dataclass(frozen=True, slots=True)
class NodeChange:
    """Nodes that change at one instant.

    Attributes:
        joined: nodes that become idle → when they are taken back; inf: not within the window.
    """

    at_s: float
    joined: dict[str, float]
    left: list[str]


def node_changes(holes: Holes) -> Iterator[NodeChange]:
    """Every instant at which a node's state changes, in order; the window's end is none."""
    # An end at the window's end is no event: nobody knows whether the hole ended there.
    ends = holes.end_s < holes.until_s
    joins = _by_instant(holes.start_s, holes.node, np.arange(len(holes)))
    leaves = _by_instant(holes.end_s, holes.node, np.flatnonzero(ends))
    names, until_s = holes.node_names, np.where(ends, holes.end_s, np.inf)
    nobody = np.array([], dtype=np.int64)
    for at_s in sorted(joins.keys() | leaves.keys()):
        joined, left = joins.get(at_s, nobody), leaves.get(at_s, nobody)
        yield NodeChange(
            at_s,
            {names[node]: end_s for node, end_s in zip(holes.node[joined], until_s[joined].tolist(), strict=True)},
            [names[node] for node in holes.node[left]],
        )


def _by_instant(
    at_s: NDArray[np.float64], node: NDArray[np.int32], rows: NDArray[np.int64]
) -> dict[float, NDArray[np.int64]]:
    """Instant → those of the rows that belong to it, by node."""
    rows = rows[np.lexsort((node[rows], at_s[rows]))]
    instants, first = np.unique(at_s[rows], return_index=True)
    # np.split of no rows is one empty piece.
    return dict(zip(instants.tolist(), np.split(rows, first[1:]), strict=True)) if len(rows) else {}


def nodes_by_partition(logged: LoggedJobs) -> Iterator[tuple[str, NDArray[np.intp]]]:
    """The nodes on which each partition's jobs ran."""
    of_row = np.repeat(logged.partition, np.diff(logged.begin))
    for number, name in enumerate(logged.partition_names):
        yield name, np.unique(logged.node[of_row == number]).astype(np.intp)


def nodes_by_kind(log: SiteLog) -> Iterator[tuple[str, NDArray[np.intp]]]:
    """The nodes of each kind, among those that are looked at."""
    position = {name: number for number, name in enumerate(log.holes.node_names)}
    for kind in log.kinds:
        nodes = [position[name] for name in kind.nodes if name in position]
        if nodes:
            yield kind.name, np.array(nodes, np.intp)


def watts_of(holes: Holes, draw: PowerDraw) -> Mapping[str, float]:
    """Node → watts; empty: nobody says. The places of a node take equal parts of what it takes."""
    if not draw.is_known:
        return {}
    places = Counter(map(node_of, holes.node_names)) if holes.in_parts else Counter[str]()
    return {
        name: draw.of((holes.kind_of.get(name, ""),)) / max(places[node_of(name)], 1) for name in holes.node_names
    }
