"""Pieces: runs of sizes on which a table is linear, the form in which HiGHS gets to see it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from freetrain.core.terms import Table

Run = tuple[int, int]
"""Fewest and most nodes of a run of sizes."""

_STRAIGHT = 1e-9


@dataclass(frozen=True, slots=True)
class Piece:
    """Sizes ``fewest`` … ``most``, at which a table reads ``value + slope · (n − fewest)``.

    ``evicted`` tells that the table charges the loss of nodes at the end of the interval, ``grown`` that it counts
    from when new nodes have booted.
    """

    fewest: int
    most: int
    value: float
    slope: float
    evicted: bool = False
    grown: bool = False


def linear_runs(table: Table, sizes: Iterable[int], held_nodes: int) -> Iterator[Run]:
    """Cut ascending sizes into few runs on which the table is linear.

    ``held_nodes`` is always a run of its own: on its two sides the costs of growing and shrinking set in.
    """
    fewest = most = -1
    slope = 0.0
    for size in sizes:
        step = float(table[size] - table[most]) if most >= 0 else np.inf
        adjacent = size == most + 1 and held_nodes not in (size, most)
        straight = most == fewest or abs(step - slope) <= _STRAIGHT * max(1.0, abs(float(table[size])))
        if most >= 0 and not (adjacent and straight):
            yield fewest, most
        if most < 0 or not (adjacent and straight):
            fewest = size
        most, slope = size, step
    if most >= 0:
        yield fewest, most


def pieces_on(table: Table, runs: Iterable[Run], evicted: bool = False, grown: bool = False) -> list[Piece]:
    """The table's values on runs of sizes on which it is linear."""
    return [
        Piece(
            fewest,
            most,
            float(table[fewest]),
            float(table[most] - table[fewest]) / (most - fewest) if most > fewest else 0.0,
            evicted,
            grown,
        )
        for fewest, most in runs
    ]
