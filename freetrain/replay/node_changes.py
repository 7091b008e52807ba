"""The log's holes as a sequence of instants at which nodes become idle or are taken back."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from freetrain.core.holes import Holes


@dataclass(frozen=True, slots=True)
class NodeChange:
    """Nodes that change at one instant.

    Attributes:
        at_s: that instant.
        joined: nodes that become idle → when they are taken back; inf: not within the window.
        left: nodes that are taken back.
    """

    at_s: float
    joined: dict[str, float]
    left: list[str]


def node_changes(holes: Holes) -> Iterator[NodeChange]:
    """Every instant at which a node's state changes, in order; the window's end is none."""
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
    return dict(zip(instants.tolist(), np.split(rows, first[1:]), strict=True)) if len(rows) else {}
