"""Electricity: what the nodes that may be lent take, where that is part of what is decided. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache

from freetrain.core.aim import read_aim
from freetrain.core.cluster import Snapshot
from freetrain.core.place import Place
from freetrain.core.power import PowerDraw


def with_watts(
    nodes: Iterable[Place], snapshot: Snapshot, draw: PowerDraw, objective: str, part: float = 1.0
) -> tuple[Place, ...]:
    """The nodes with what each takes while it is lent, if the objective counts it.

    Args:
        nodes: which.
        snapshot: what they are.
        draw: watts by kind.
        objective: name of what is maximised.
        part: how much of a node each of them is.
    """
    if not read_aim(objective).energy or not draw.is_known:
        return tuple(nodes)
    return tuple(_taking(node, part * _watts(node.node, snapshot, draw)) for node in nodes)


def _watts(name: str, snapshot: Snapshot, draw: PowerDraw) -> float:
    node = snapshot.node.get(name)
    return draw.usual_w if node is None else draw.of(node.features | node.gpu_types)


@lru_cache(maxsize=65536)  # nodes are the same from look to look, but for a few
def _taking(node: Place, watts: float) -> Place:
    return replace(node, watts=watts)
