"""Rows that each tell of one node: taken some nodes at a time, and put in order of node and time."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

_ROWS_AT_ONCE = 1 << 18
"""What is worked out of so many rows at a time stays in the processor's cache, and takes half the time."""
_ROWS_SORTED_AT_ONCE = 1 << 21
"""numpy sorts and indexes with eight bytes a row, whatever a row's number needs."""
_Lots = NDArray[np.unsignedinteger[Any]]
_Kind = TypeVar("_Kind", np.float64, np.int32, np.bool_)


def some_nodes_at_a_time(
    node: NDArray[np.int32], counts: NDArray[np.bool_], nodes: int
) -> Iterator[tuple[slice, NDArray[np.int32]]]:
    """Nodes that follow each other, with the rows that tell of them, ascending; each node comes once.

    Args:
        node: of each row.
        counts: whether the row counts; others are left out.
        nodes: how many nodes there are.
    """
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


def taken(values: NDArray[_Kind], index: NDArray[np.int32]) -> NDArray[_Kind]:
    """The values at these places; of many rows without making the index eight bytes wide."""
    found = np.empty(len(index), values.dtype)
    for one in _slices(len(index)):
        found[one] = values[index[one]]
    return found


def order_by_node(node: NDArray[np.int32], at_s: NDArray[np.float64], until_s: float) -> NDArray[np.int64]:
    """The order of instants by node, then time.

    All nodes' times are laid one behind the other: one number to sort by takes a quarter of the time of two. For
    whole seconds it is exact, and on the largest machines to 0.01 s.

    Args:
        node: of each instant.
        at_s: when, from 0 to ``until_s``.
        until_s: the latest that there may be.
    """
    return np.argsort(node * (until_s + 1.0) + at_s)


def _slices(rows: int) -> list[slice]:
    """All rows, so many at a time; one slice at the least."""
    return [slice(begin, begin + _ROWS_SORTED_AT_ONCE) for begin in range(0, max(rows, 1), _ROWS_SORTED_AT_ONCE)]


def _by_lot(lot: _Lots, lots: int) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Rows in order of their lots, and where each lot begins and the last one ends among them."""
    begin = np.append(0, np.cumsum(np.bincount(lot, minlength=lots)))
    return np.argsort(lot, kind="stable").astype(np.int32), begin
