"""The types of a deal: claimants, shares, the deal itself; and the choice of the places that a claimant keeps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import inf
from typing import NamedTuple

from freetrain.core.amounts import Amount
from freetrain.core.grouping import grouped
from freetrain.core.place import Place


@dataclass(frozen=True, slots=True)
class SizeRange:
    """The numbers of nodes that a trainer wants."""

    trainer: str
    min_nodes: int
    max_nodes: int


class PlaceShape(NamedTuple):
    """Nodes on which a place may lie, and amount that it takes; places of one shape find room on the same nodes.

    Attributes:
        eligible: the nodes on which it may lie.
        each: amount of one node that it takes; None: all of it.
    """

    eligible: frozenset[str]
    each: Amount | None


@dataclass(frozen=True)
class Claimant:
    """One user's trainers that may use the same nodes.

    Attributes:
        path: the shares that it is part of, outermost first, as ("account ml", "user alice").
        wants: its trainers; the last ones lose their nodes first.
        eligible: the nodes that it may use; claimants with the same needs should have the same object.
        most: the largest number of places that it takes.
        capped_by: the limits that count its nodes.
        each: amount of a node that each of its tasks takes; None: all of it.
        worth: number of nodes as which each of its places counts.
        decided_with: the same for claimants whose nodes are divided among them in one decision; None: alone.
        settled: places of its trainers that it keeps in any case; they count like its others.
    """

    key: Hashable
    path: tuple[str, ...]
    wants: tuple[SizeRange, ...]
    eligible: frozenset[str]
    most: float = inf
    capped_by: tuple[str, ...] = ()
    each: Amount | None = None
    worth: float = 1.0
    decided_with: Hashable = None
    settled: tuple[str, ...] = ()

    @cached_property
    def trainers(self) -> frozenset[str]:
        """Trainers of the claimant, among which its places are divided."""
        return frozenset(want.trainer for want in self.wants)

    @cached_property
    def shape(self) -> PlaceShape:
        """Shape of each of its places."""
        return PlaceShape(self.eligible, self.each)

    @property
    def places(self) -> int:
        """Largest number of its tasks that can be placed: one on each node, or as many as its trainers want."""
        return len(self.eligible) if self.each is None else sum(want.max_nodes for want in self.wants)

    @cached_property
    def sizes(self) -> int:
        """The numbers of places that its trainers can use together, as bits."""
        return usable_sizes(self.wants, int(min(self.most, self.places)))


@dataclass(frozen=True)
class Shares:
    """Weights, past use and limits by which nodes are shared.

    Attributes:
        weight: member of a path → its weight among those at the same level; 1 if it is missing.
        used: member of a path → its past use; among equals, the one with the least comes first.
        caps: limit → the largest number of nodes.
    """

    weight: Mapping[str, float] = field(default_factory=dict)
    used: Mapping[str, float] = field(default_factory=dict)
    caps: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Deal:
    """Places that each claimant is dealt, and places that change hands.

    Attributes:
        places: key of a claimant → its places: those that are settled, then longest-lived first within each kind.
        leaving: place that its holder has to give up → key of the claimant that gets it; None: no claimant does.
        new: places of nodes that are lent in parts which are not held yet → amount of its node that each takes.
    """

    places: Mapping[Hashable, tuple[str, ...]]
    leaving: Mapping[str, Hashable | None]
    new: Mapping[Place, Amount] = field(default_factory=dict)


def usable_sizes(wants: Iterable[SizeRange], most: int) -> int:
    """Numbers of nodes, ``most`` at most, that add up from sizes of some of the trainers: bit n stands for n."""
    mask = (1 << (most + 1)) - 1
    sums = 1
    for want in wants:
        min_nodes, largest = max(want.min_nodes, 1), min(want.max_nodes, most)
        if min_nodes <= largest:
            sums |= _shifted_by(sums, min_nodes, largest) & mask
        # All numbers can be used, whatever follows: with many trainers that is so after the first few.
        if sums == mask:
            break
    return sums


def _shifted_by(bits: int, min_nodes: int, most: int) -> int:
    """``bits`` shifted by each of ``min_nodes`` … ``most``, all together."""
    # The width doubles with each step: a range of n sizes takes log n operations.
    spread, width, wanted = bits << min_nodes, 1, most - min_nodes + 1
    while width < wanted:
        step = min(width, wanted - width)
        spread |= spread << step
        width += step
    return spread


def keep(
    held: Sequence[Place], count: int, wants: Sequence[SizeRange], sizes: Counter[str | None]
) -> tuple[Sequence[Place], Sequence[Place]]:
    """The nodes that a claimant keeps of those it holds, longest-lived first, and those that it gives up.

    The trainer furthest above its minimum gives up nodes first; if none is above it, one trainer gives up all.

    Updates ``sizes``: trainer → the nodes that it has, of all kinds.
    """
    if len(held) <= count:
        return held, ()
    of_trainer = grouped((node.holder, node) for node in held)
    order = {want.trainer: (number, want.min_nodes) for number, want in enumerate(wants)}

    def gives_first(trainer: str | None) -> tuple[int, bool, int]:
        number, min_nodes = order[str(trainer)]
        spare = sizes[trainer] - min_nodes
        return max(spare, 0), spare < 0, number

    given_up: list[Place] = []
    for _ in range(len(held) - count):
        trainer = max(of_trainer, key=gives_first)
        given_up.append(of_trainer[trainer].pop())
        sizes[trainer] -= 1
        if not of_trainer[trainer]:
            del of_trainer[trainer]
    gone = {node.name for node in given_up}
    return [node for node in held if node.name not in gone], given_up
