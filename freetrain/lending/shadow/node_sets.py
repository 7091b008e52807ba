"""Sets of nodes as bits of whole numbers: those of a large machine are compared thousands of times a look."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from freetrain.core.node import Nodes

NodeSet = int
"""Bit *i* stands for the node that comes *i*-th in Slurm's order."""


class NodeSets:
    """Turns names into sets and back.

    Args:
        names: of all nodes, in Slurm's order.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self._names = tuple(names)
        self._bit = {name: 1 << number for number, name in enumerate(self._names)}
        self.all: NodeSet = (1 << len(self._names)) - 1

    def of(self, names: Iterable[str]) -> NodeSet:
        """The set of these nodes; names that nobody knows are left out."""
        found = 0
        for name in names:
            found |= self._bit.get(name, 0)
        return found

    def of_flags(self, flags: NDArray[np.bool_]) -> NodeSet:
        """The set of the nodes that are flagged, of which there is one flag each."""
        return int.from_bytes(np.packbits(flags, bitorder="little").tobytes(), "little")

    def names(self, nodes: NodeSet) -> Nodes:
        """The nodes of a set."""
        return frozenset(self.in_order(nodes))

    def in_order(self, nodes: NodeSet) -> list[str]:
        """The same in Slurm's order."""
        return [self._names[number] for number in numbers(nodes)]


def numbers(nodes: NodeSet) -> list[int]:
    """Which bits a set has: where its nodes come in Slurm's order, from 0."""
    return [match.start() for match in re.finditer("1", _digits(nodes))]


def closest(nodes: NodeSet, count: int) -> NodeSet:
    """As many neighbours as wanted: from the smallest group that has them all, or else from the largest ones."""
    if nodes.bit_count() <= count:
        return nodes
    chosen = 0
    runs = [match.span() for match in re.finditer("1+", _digits(nodes))]
    whole = [run for run in runs if _length(run) >= count]
    for begin, end in [min(whole, key=_length)] if whole else sorted(runs, key=_length, reverse=True):
        taken = min(count, end - begin)
        chosen |= ((1 << taken) - 1) << begin
        count -= taken
    return chosen


def _digits(nodes: NodeSet) -> str:
    """One for each node, the first node's first."""
    return bin(nodes)[:1:-1]


def _length(run: tuple[int, int]) -> int:
    return run[1] - run[0]
