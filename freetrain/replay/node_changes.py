"""The log's holes as a sequence of instants at which nodes become idle or are taken back."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from freetrain.core.holes import Holes


@dataclass(frozen=True, slots=True)
class NodeChange:
    """Nodes that change at one instant."""

    at_s: float
    joined: list[str]
    left: list[str]


def node_changes(holes: Holes) -> Iterator[NodeChange]:
    """Every instant at which a node's state changes, in order; the window's end is none."""
    ends = holes.end_s < holes.until_s
    joins = _by_instant(holes.start_s, holes.node)
    leaves = _by_instant(holes.end_s[ends], holes.node[ends])
    names = holes.node_names
    for at_s in sorted(joins.keys() | leaves.keys()):
        yield NodeChange(
            at_s, [names[node] for node in joins.get(at_s, ())], [names[node] for node in leaves.get(at_s, ())]
        )


def _by_instant(at_s: NDArray[np.float64], node: NDArray[np.int32]) -> dict[float, NDArray[np.int32]]:
    order = np.lexsort((node, at_s))
    instants, first = np.unique(at_s[order], return_index=True)
    return dict(zip(instants.tolist(), np.split(node[order], first[1:]), strict=True)) if len(at_s) else {}
