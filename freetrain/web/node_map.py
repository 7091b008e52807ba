"""The map of the machine: a cell for each node, coloured by what is done with it. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from math import ceil
from typing import get_args

from freetrain.daemon.reports.status import NodeGroup, NodeStanding
from freetrain.slurm.parsing import expand_nodes
from freetrain.web.node_order import in_order

STATES: tuple[NodeStanding, ...] = ("lent", "asked for", "due back", "free", "not lent")
assert set(STATES) == set(get_args(NodeStanding))

_WIDTH = 1000
_SIZES = ((64, 18, 3), (256, 12, 2), (1024, 8, 1), (6000, 4, 0), (16_000, 3, 0))
"""So many nodes at most → width of a cell, and what is left clear between two."""
_MOST_NAMED = 256
"""Of so many nodes each cell says what it is; of more, one colour is one shape."""


@dataclass(frozen=True, slots=True)
class Shape:
    """A part of the map.

    Attributes:
        state: of its nodes.
        path: in SVG's words.
        title: what it is; empty: it is many nodes.
    """

    state: NodeStanding
    path: str
    title: str = ""


@dataclass(frozen=True, slots=True)
class NodeMap:
    """A picture of all nodes, in the order of their names.

    Attributes:
        width: of it.
        height: of it.
        shapes: what it consists of.
        counts: state → nodes, none left out.
    """

    width: int
    height: int
    shapes: tuple[Shape, ...]
    counts: Mapping[NodeStanding, int]


def draw_map(groups: Iterable[NodeGroup]) -> NodeMap:
    """The map of the nodes of these groups."""
    group_of = {name: group for group in groups for name in expand_nodes(group.nodes)}
    counts = Counter(group.state for group in group_of.values())
    count = len(group_of)
    cell, gap = next(((cell, gap) for most, cell, gap in _SIZES if count <= most), (2, 0))
    pitch = cell + gap
    rows = ceil(count * pitch / _WIDTH)
    columns = ceil(count / rows) if rows else 0
    cells = [
        (number // columns, number % columns, name, group_of[name])
        for number, name in enumerate(in_order(group_of))
    ]
    shapes = _named(cells, pitch, cell) if count <= _MOST_NAMED else _merged(cells, pitch, cell)
    ordered = {state: counts[state] for state in STATES}
    return NodeMap(columns * pitch, rows * pitch, tuple(shapes), ordered)


_Cell = tuple[int, int, str, NodeGroup]


def _named(cells: Iterable[_Cell], pitch: int, cell: int) -> Iterator[Shape]:
    for row, column, name, group in cells:
        yield Shape(group.state, _box(row, column, 1, pitch, cell), f"{name}: {_said(group)}")


def _merged(cells: Iterable[_Cell], pitch: int, cell: int) -> Iterator[Shape]:
    """One shape for each state; what lies side by side in a row is one box."""
    paths: defaultdict[NodeStanding, list[str]] = defaultdict(list)
    for (row, state), run in groupby(cells, key=lambda each: (each[0], each[3].state)):
        columns = [column for _, column, _, _ in run]
        paths[state].append(_box(row, columns[0], len(columns), pitch, cell))
    return (Shape(state, "".join(path)) for state, path in paths.items())


def _box(row: int, column: int, columns: int, pitch: int, cell: int) -> str:
    width = (columns - 1) * pitch + cell
    return f"M{column * pitch} {row * pitch}h{width}v{cell}h-{width}z"


def _said(group: NodeGroup) -> str:
    """What becomes of a node, as ``freetrain nodes`` says it."""
    words = {"lent": "lent to", "asked for": "asked for", "due back": "due back from"}
    said = f"{words.get(group.state, group.state)} {group.trainer}" if group.trainer else str(group.state)
    return f"{said}, {group.why}" if group.why else said
