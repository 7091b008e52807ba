"""Idle time by kind of node and by partition, where the log tells them apart."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from freetrain.core.holes import SECONDS_PER_HOUR, Holes
from freetrain.replay.logs.model import SiteLog
from freetrain.replay.node_groups import nodes_by_kind, nodes_by_partition


@dataclass(frozen=True, slots=True)
class GroupRow:
    """One group of nodes.

    Attributes:
        name: its name.
        nodes: how many nodes it has.
        idle_node_hours: idle node-hours on them.
        idle_share: part of their time in which they were idle.
        median_s: half of the holes on them were shorter.
    """

    name: str
    nodes: int
    idle_node_hours: float
    idle_share: float
    median_s: float


def by_kind(log: SiteLog) -> tuple[GroupRow, ...]:
    """By kind of node, most idle node-hours first; nothing where there is one kind only."""
    return _rows(log.holes, nodes_by_kind(log))


def by_partition(log: SiteLog) -> tuple[GroupRow, ...]:
    """By partition, which is the nodes on which its jobs ran; nothing where there is one only."""
    if log.logged is None:
        return ()
    return _rows(log.holes, nodes_by_partition(log.logged))


def _rows(holes: Holes, groups: Iterable[tuple[str, NDArray[np.intp]]]) -> tuple[GroupRow, ...]:
    idle_s = np.bincount(holes.node, holes.length_s, len(holes.node_names))
    rows = []
    for name, nodes in groups:
        member = np.zeros(len(holes.node_names), bool)
        member[nodes] = True
        lengths_s = holes.length_s[member[holes.node]]
        total_s = float(idle_s[nodes].sum())
        rows.append(
            GroupRow(
                name,
                len(nodes),
                total_s / SECONDS_PER_HOUR,
                total_s / (len(nodes) * holes.duration_s),
                float(np.median(lengths_s)) if len(lengths_s) else 0.0,
            )
        )
    rows.sort(key=lambda row: (-row.idle_node_hours, row.name))
    return tuple(rows) if len(rows) > 1 else ()
