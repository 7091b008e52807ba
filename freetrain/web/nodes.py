"""The nodes: a map with a cell for each, and why each is lent or not, nodes with like reasons together. Pure."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from math import ceil

from freetrain.daemon.reports.status import NodeGroup, NodeStanding
from freetrain.lending.node_verdicts import what_changes
from freetrain.showing.words import natural_order
from freetrain.slurm.parsing import expand_nodes, fold_nodes

STATES: tuple[NodeStanding, ...] = ("lent", "asked for", "due back", "free", "not lent")
_WIDTH = 1000
_SIZES = ((64, 18, 3), (256, 12, 2), (1024, 8, 1), (6000, 4, 0), (16_000, 3, 0))
"""So many nodes at most → width of a cell, and what is left clear between two."""
_MAX_NAMED = 256
"""Of so many nodes each cell says what it is; of more, one colour is one shape."""
_Cell = tuple[int, int, str, NodeGroup]
MAX_ROWS = 40
_MAX_FOLDED, _LONGEST = 300, 140
_LIKE = ((re.compile(r"\bjob \d\S*"), "a job"), (re.compile(r"\b\d+ s\b"), "some seconds"))
"""What tells reasons apart that are alike."""


@dataclass(frozen=True, slots=True)
class MapShape:
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
    shapes: tuple[MapShape, ...]
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
        for number, name in enumerate(natural_order(group_of))
    ]
    shapes = _named(cells, pitch, cell) if count <= _MAX_NAMED else _merged(cells, pitch, cell)
    ordered = {state: counts[state] for state in STATES}
    return NodeMap(columns * pitch, rows * pitch, tuple(shapes), ordered)


def _named(cells: Iterable[_Cell], pitch: int, cell: int) -> Iterator[MapShape]:
    for row, column, name, group in cells:
        yield MapShape(group.state, _box(row, column, 1, pitch, cell), f"{name}: {_state_text(group)}")


def _merged(cells: Iterable[_Cell], pitch: int, cell: int) -> Iterator[MapShape]:
    """One shape for each state; what lies side by side in a row is one box."""
    paths: defaultdict[NodeStanding, list[str]] = defaultdict(list)
    for (row, state), run in groupby(cells, key=lambda each: (each[0], each[3].state)):
        columns = [column for _, column, _, _ in run]
        paths[state].append(_box(row, columns[0], len(columns), pitch, cell))
    return (MapShape(state, "".join(path)) for state, path in paths.items())


def _box(row: int, column: int, columns: int, pitch: int, cell: int) -> str:
    width = (columns - 1) * pitch + cell
    return f"M{column * pitch} {row * pitch}h{width}v{cell}h-{width}z"


def _state_text(group: NodeGroup) -> str:
    """What becomes of a node, as ``freetrain nodes`` says it."""
    words = {"lent": "lent to", "asked for": "asked for", "due back": "due back from"}
    text = f"{words.get(group.state, group.state)} {group.trainer}" if group.trainer else str(group.state)
    return f"{text}, {group.why}" if group.why else text


@dataclass(frozen=True, slots=True)
class NodeReason:
    """Nodes with like reasons.

    Attributes:
        state: what is done with them.
        why: the reason; empty: there is nothing to explain.
        advice: what would have to change; empty: nothing, or nobody can say.
        count: how many they are.
        nodes: which, as ``c[01-04]``; the first of them where they are many.
        until_s: when the first of them is expected to be wanted, UTC epoch seconds; None: nobody knows.
    """

    state: NodeStanding
    why: str
    advice: str
    count: int
    nodes: str
    until_s: float | None


def gather_reasons(groups: Iterable[NodeGroup]) -> list[NodeReason]:
    """The reasons in the order of the states, those of most nodes first; at most ``MAX_ROWS``."""
    alike: defaultdict[tuple[NodeStanding, str], list[NodeGroup]] = defaultdict(list)
    for group in groups:
        alike[group.state, without_ids(group.why)].append(group)
    rows = [_reason(state, why, members) for (state, why), members in alike.items()]
    rows.sort(key=lambda row: (STATES.index(row.state), -row.count, row.why))
    return rows[:MAX_ROWS]


def without_ids(why: str) -> str:
    """A reason without what tells it apart from reasons that are alike, as the ids of jobs."""
    for pattern, words in _LIKE:
        why = pattern.sub(words, why)
    return why


def _reason(state: NodeStanding, why: str, members: list[NodeGroup]) -> NodeReason:
    names = natural_order(name for group in members for name in expand_nodes(group.nodes))
    folded = fold_nodes(names[:_MAX_FOLDED])
    is_cut = len(names) > _MAX_FOLDED or len(folded) > _LONGEST
    ends = [group.until_s for group in members if group.until_s is not None]
    return NodeReason(
        state=state,
        why=why,
        advice=what_changes(members[0].verdict, "NODE"),
        count=len(names),
        nodes=folded[:_LONGEST].rpartition(",")[0] + ", …" if is_cut and "," in folded else folded,
        until_s=min(ends, default=None),
    )
