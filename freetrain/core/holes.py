"""Holes: the idle node × time intervals of a machine.

Rows that each tell of one node are taken some nodes at a time, and sorted by one number, so that memory and time
stay small on the largest machines.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

SECONDS_PER_HOUR = 3600.0
_ROWS_AT_ONCE = 1 << 18
"""Rows of this number stay in the processor's cache, which halves the time."""
_ROWS_SORTED_AT_ONCE = 1 << 21
"""numpy sorts and indexes with eight bytes a row, whatever a row's number needs."""
_Lots = NDArray[np.unsignedinteger[Any]]
_ArrayT = TypeVar("_ArrayT", np.float64, np.int32, np.bool_)


@dataclass(frozen=True, slots=True)
class Holes:
    """Every hole of a machine within a window, one row per (node, start, end).

    The rows are sorted by start, then node; holes of one node neither overlap nor touch.

    Attributes:
        node_names: the machine's nodes; rows name them by position.
        node: position in ``node_names``, shape (holes,).
        start_s: time at which the node becomes idle, UTC epoch seconds, shape (holes,).
        end_s: time at which it is taken back, shape (holes,); always after ``start_s``.
        kind_of: node → its kind; empty: kinds are unknown.
        in_parts: the nodes are places on nodes (:func:`freetrain.core.place.node_of`).
    """

    node_names: tuple[str, ...]
    node: NDArray[np.int32]
    start_s: NDArray[np.float64]
    end_s: NDArray[np.float64]
    from_s: float
    until_s: float
    kind_of: Mapping[str, str] = field(default_factory=dict)
    in_parts: bool = False

    def __len__(self) -> int:
        return len(self.node)

    @property
    def length_s(self) -> NDArray[np.float64]:
        """Length of each hole, shape (holes,)."""
        return self.end_s - self.start_s

    @property
    def duration_s(self) -> float:
        """Length of the window."""
        return self.until_s - self.from_s

    @property
    def idle_node_hours(self) -> float:
        """Idle node-hours in the window."""
        return float(self.length_s.sum()) / SECONDS_PER_HOUR

    @property
    def mean_idle_nodes(self) -> float:
        """Idle nodes on average over the window."""
        return self.idle_node_hours * SECONDS_PER_HOUR / self.duration_s


def find_holes(
    node_names: tuple[str, ...],
    busy_node: NDArray[np.int32],
    busy_start_s: NDArray[np.float64],
    busy_end_s: NDArray[np.float64],
    from_s: float,
    until_s: float,
    interval: NDArray[np.int32] | None = None,
) -> Holes:
    """The holes of a window: each node's time without its busy intervals.

    The node of row i is busy in its interval, ``interval[i]`` (None: i), until ``inf`` where that has not ended.
    Intervals of a node may overlap; a node without a row is idle throughout.
    """
    lasting = busy_end_s > busy_start_s
    found = []
    for nodes, rows in some_nodes_at_a_time(
        busy_node, lasting if interval is None else taken(lasting, interval), len(node_names)
    ):
        own = rows if interval is None else interval[rows]
        found.append(_holes_of(nodes, busy_node[rows], busy_start_s[own], busy_end_s[own], from_s, until_s))
    node, start_s, end_s = (np.concatenate(column) for column in zip(*found, strict=True))
    return _in_order(Holes(node_names, node, start_s, end_s, from_s, until_s))


def seen_by_polls(holes: Holes, poll_s: float) -> Holes:
    """The holes as a daemon sees them that looks so often (0: always): each from the first look on, some never.

    The first look is at the window's start.
    """
    if poll_s == 0:
        return holes
    looks = np.ceil((holes.start_s - holes.from_s) / poll_s)
    start_s = np.minimum(holes.from_s + looks * poll_s, holes.end_s)
    return cut(replace(holes, start_s=start_s), holes.from_s, holes.until_s)


def sorted_holes(
    node_names: tuple[str, ...],
    node: NDArray[np.int32],
    start_s: NDArray[np.float64],
    end_s: NDArray[np.float64],
    from_s: float,
    until_s: float,
) -> Holes:
    """Holes from rows in any order, cut to the window; what falls outside it is dropped."""
    return cut(Holes(node_names, node, start_s, end_s, from_s, until_s), from_s, until_s)


def cut(holes: Holes, from_s: float, until_s: float) -> Holes:
    """The holes within a shorter window, in order."""
    start_s, end_s = holes.start_s.clip(from_s, until_s), holes.end_s.clip(from_s, until_s)
    inside = end_s > start_s
    node, start_s, end_s = holes.node[inside], start_s[inside], end_s[inside]
    return _in_order(replace(holes, node=node, start_s=start_s, end_s=end_s, from_s=from_s, until_s=until_s))


def seconds_within(
    holes: Holes, node: NDArray[np.int32], start_s: NDArray[np.float64], end_s: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Seconds that nodes, by position, are idle within stretches of time in the window, shape (stretches,)."""
    if not len(holes):
        return np.zeros(len(node))
    # All nodes' times are laid one behind the other, with a second between them so that none touches the next.
    day_s = holes.duration_s + 1.0
    order = np.lexsort((holes.start_s, holes.node))
    first_s, last_s = (
        holes.node[order] * day_s + at_s[order] - holes.from_s for at_s in (holes.start_s, holes.end_s)
    )
    before_s = np.cumsum(last_s - first_s) - (last_s - first_s)

    def idle_before(at_s: NDArray[np.float64]) -> NDArray[np.float64]:
        laid_s = node * day_s + at_s - holes.from_s
        # Idle time of all nodes before this one is in both sums, and cancels when they are subtracted.
        row = np.searchsorted(first_s, laid_s, side="right") - 1
        idle_s: NDArray[np.float64] = before_s[row] + np.minimum(laid_s, last_s[row]) - first_s[row]
        return np.where(row >= 0, idle_s, 0.0)

    return idle_before(end_s) - idle_before(start_s)


def idle_until(holes: Holes, at_s: NDArray[np.float64]) -> NDArray[np.float64]:
    """Idle node-seconds from the window's start to each instant."""

    def since(ascending_s: NDArray[np.float64]) -> NDArray[np.float64]:
        moments_s = ascending_s - holes.from_s
        sums = np.append(0.0, np.cumsum(moments_s))
        count = np.searchsorted(moments_s, at_s - holes.from_s)
        passed: NDArray[np.float64] = count * (at_s - holes.from_s) - sums[count]
        return passed

    # What has passed since all starts less what has passed since all ends; rows are in order of starts alone.
    idle_s: NDArray[np.float64] = since(holes.start_s) - since(np.sort(holes.end_s))
    return idle_s


def _in_order(holes: Holes) -> Holes:
    order = np.lexsort((holes.node, holes.start_s))
    return replace(holes, node=holes.node[order], start_s=holes.start_s[order], end_s=holes.end_s[order])


def _holes_of(
    nodes: slice,
    busy_node: NDArray[np.int32],
    busy_start_s: NDArray[np.float64],
    busy_end_s: NDArray[np.float64],
    from_s: float,
    until_s: float,
) -> tuple[NDArray[np.int32], NDArray[np.float64], NDArray[np.float64]]:
    everywhere = np.arange(nodes.start, nodes.stop, dtype=np.int32)
    # Two intervals of no length at the window's ends spare every special case for first and last holes.
    first_s, last_s = np.full(len(everywhere), from_s), np.full(len(everywhere), until_s)
    node = np.concatenate([everywhere, busy_node, everywhere])
    start_s = np.concatenate([first_s, busy_start_s, last_s]).clip(from_s, until_s)
    end_s = np.concatenate([first_s, busy_end_s, last_s]).clip(from_s, until_s)
    order = order_by_node(node, start_s - from_s, until_s - from_s)
    node, start_s, end_s = node[order], start_s[order], end_s[order]
    # The latest end so far on each node: each is lifted above the one before, and one running maximum serves all.
    first = end_s.min()
    lifted = node * (end_s.max() - first + 1.0) + (end_s - first)
    is_latest = lifted == np.maximum.accumulate(lifted)
    busy_until_s = end_s[np.maximum.accumulate(np.where(is_latest, np.arange(len(end_s)), 0))]
    # Idle is what lies between the latest end so far and the next start on the same node.
    follows = (node[1:] == node[:-1]) & (start_s[1:] > busy_until_s[:-1])
    return node[1:][follows], busy_until_s[:-1][follows], start_s[1:][follows]


def some_nodes_at_a_time(
    node: NDArray[np.int32], counts: NDArray[np.bool_], nodes: int
) -> Iterator[tuple[slice, NDArray[np.int32]]]:
    """Nodes that follow each other, with the rows of them that count, ascending; each node comes once."""
    slices = _slices(len(node))
    upto = np.cumsum(sum(np.bincount(node[some], minlength=nodes) for some in slices))
    begins = np.diff(upto // _ROWS_AT_ONCE, prepend=-1) > 0
    first_nodes = np.flatnonzero(begins)
    lots = len(first_nodes)
    # Sorted by the number of the lot that their nodes are in: two bytes take a third of the time of four.
    lot: _Lots = (np.cumsum(begins) - 1).astype(np.uint16 if lots < 1 << 16 else np.uint32)
    # Rows that do not count are in a lot behind the last.
    rows = [_by_lot(np.where(counts[some], lot[node[some]], lot.dtype.type(lots)), lots) for some in slices]
    for number, (first, end) in enumerate(pairwise([*first_nodes.tolist(), nodes])):
        own = [
            some.start + by_lot[begin[number] : begin[number + 1]]
            for some, (by_lot, begin) in zip(slices, rows, strict=True)
        ]
        yield slice(first, end), np.concatenate(own)


def taken(values: NDArray[_ArrayT], index: NDArray[np.int32]) -> NDArray[_ArrayT]:
    """The values at these places; of many rows without making the index eight bytes wide."""
    found = np.empty(len(index), values.dtype)
    for some in _slices(len(index)):
        found[some] = values[index[some]]
    return found


def order_by_node(node: NDArray[np.int32], at_s: NDArray[np.float64], until_s: float) -> NDArray[np.int64]:
    """The order of instants from 0 to ``until_s`` by node, then time.

    All nodes' times are laid one behind the other: one number to sort by takes a quarter of the time of two. For
    whole seconds it is exact, and on the largest machines to 0.01 s.
    """
    return np.argsort(node * (until_s + 1.0) + at_s)


def _slices(rows: int) -> list[slice]:
    return [slice(begin, begin + _ROWS_SORTED_AT_ONCE) for begin in range(0, max(rows, 1), _ROWS_SORTED_AT_ONCE)]


def _by_lot(lot: _Lots, lots: int) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Rows in order of their lots, and where each lot begins and the last one ends among them."""
    begin = np.append(0, np.cumsum(np.bincount(lot, minlength=lots)))
    # Stable, which is a radix sort for two bytes, and keeps rows ascending within a lot.
    return np.argsort(lot, kind="stable").astype(np.int32), begin
