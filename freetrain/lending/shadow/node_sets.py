"""Sets of nodes as bits of whole numbers: those of a large machine are compared thousands of times a look."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from freetrain.core.node import Nodes

NodeSet = int
"""Bit *i* stands for the node that comes *i*-th in Slurm's order."""


@lru_cache(maxsize=8)
def node_sets(names: tuple[str, ...]) -> NodeSets:
    """Sets of the nodes with these names: they are the same at nearly every look."""
    return NodeSets(names)


class NodeSets:
    """Converter of names to sets and back; ``all`` is the set of all nodes, whose names are in Slurm's order."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names_in_order = tuple(names)
        self._number = {name: number for number, name in enumerate(self.names_in_order)}
        self.all: NodeSet = (1 << len(self.names_in_order)) - 1

    def of(self, names: Iterable[str]) -> NodeSet:
        """The set of these nodes; unknown names are left out."""
        return _set_of(self, names) if isinstance(names, frozenset) else self._of(names)

    def _of(self, names: Iterable[str]) -> NodeSet:
        known = (self._number[name] for name in names if name in self._number)
        # Setting bits of an integer one by one would copy it for each node.
        found = bytearray(len(self._number) // 8 + 1)
        for number in known:
            found[number >> 3] |= 1 << (number & 7)
        return int.from_bytes(found, "little")

    def of_flags(self, flags: NDArray[np.bool_]) -> NodeSet:
        """The set of the nodes that are flagged, of which there is one flag each."""
        return int.from_bytes(np.packbits(flags, bitorder="little").tobytes(), "little")

    def names(self, nodes: NodeSet) -> Nodes:
        """The nodes of a set."""
        return frozenset(self.in_order(nodes))

    def in_order(self, nodes: NodeSet) -> list[str]:
        """The nodes of a set in Slurm's order."""
        return [self.names_in_order[number] for number in numbers(nodes)]


# Only for frozen sets, whose hash is kept: those of partitions and jobs are the same from look to look. Not many
# more than there are at a time: those of jobs that have gone may hold thousands of names each.
@lru_cache(maxsize=4096)
def _set_of(sets: NodeSets, names: frozenset[str]) -> NodeSet:
    return sets._of(names)


def numbers(nodes: NodeSet) -> list[int]:
    """Numbers of the bits of a set: the positions of its nodes in Slurm's order, from 0."""
    return [match.start() for match in re.finditer("1", _digits(nodes))]


def closest(nodes: NodeSet, count: int) -> NodeSet:
    """``count`` neighbours: from the smallest group that has them all, or else from the largest ones."""
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
    # Text, because regular expressions find bits and runs of bits in C, a loop in Python much more slowly.
    return bin(nodes)[:1:-1]


def _length(run: tuple[int, int]) -> int:
    return run[1] - run[0]
