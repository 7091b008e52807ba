"""Dealing: how many of the offered nodes each user may have, and which, before a policy decides within their part.

Users do not compete inside one objective, so that nothing one of them hands in (curves, weights, costs, numbers of
trainers, minimum sizes) can take what is another's. What is dealt keeps these invariants:

1. A node is dealt to one claimant at most, and only to one that may use it.
2. A claimant gets only numbers of nodes that its trainers can use together: nothing waits for a minimum size.
3. *Guaranteed:* where all claimants may use all nodes, each gets at least the largest number that it can use of
   its share, rounded down. Shares are equal, or as the site weighs them; who can use nothing takes part in none.
4. *Work-conserving:* what somebody leaves goes on to the others, always to the one at the lowest level
   (nodes by weight) after the step to its next usable size; in the end no claimant's next step fits into what is
   left.
5. *Stable:* a claimant keeps the nodes that its trainers hold as far as its number of nodes allows, and dealing
   again what was dealt moves nothing.
6. Limits (``Shares.caps``) are never exceeded.
7. *Settled:* what is expected to come free soon by itself stays where it is (``soon_over.py``) and counts as part
   of its claimant's share; so 3 and 6 may take as long as that.

Where nodes are dealt in parts, places are dealt: what a task of the claimant takes of a node is one. What counts
for a claimant's level then is what its places are worth in nodes: the largest part of the CPUs, the memory or the
GPUs of a node (dominant resource fairness, Ghodsi et al., NSDI 2011). How places of different sizes fit on nodes
is found by trying, and by a search that is exact as long as its work lasts (``part_stock.py``): so far 4 holds.
"""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace
from math import inf
from typing import Any, Protocol

from freetrain.core.place import Place
from freetrain.core.topology import FLAT, Topology
from freetrain.lending.rooms import Rooms
from freetrain.lending.sharing.claims import Claimant, Deal, Shares, SizeRange, usable_sizes
from freetrain.lending.sharing.node_stock import NodeStock
from freetrain.lending.sharing.part_stock import PartStock

__all__ = ["Claimant", "Deal", "Shares", "SizeRange", "deal", "usable_sizes"]

_SLACK = 1e-9


class Stock(Protocol):
    """What is dealt. Claimants go by their row."""

    @property
    def nodes(self) -> float:
        """How many nodes there are."""

    def most(self, row: int) -> int:
        """For how many places of a claimant there would be room if nobody else were there."""

    def held(self, row: int) -> int:
        """How many places its trainers hold."""

    def free(self, row: int) -> int:
        """How many more places it could take for certain, as far as that is known without trying."""

    def take(self, row: int) -> bool:
        """Give a claimant one more place; False: there is none."""

    def save(self) -> Any:
        """Where things stand."""

    def restore(self, saved: Any) -> None:
        """Back to where things stood."""

    def named(self) -> Deal:
        """Which places they are."""


def deal(
    nodes: Sequence[Place],
    claimants: Sequence[Claimant],
    shares: Shares | None = None,
    rooms: Rooms | None = None,
    topology: Topology = FLAT,
) -> Deal:
    """Deal the nodes.

    Args:
        nodes: all that are offered; those held by a trainer of no claimant are dealt to nobody.
        claimants: with different keys, and each trainer in one of them.
        shares: how; None: equal.
        rooms: where nodes are dealt in parts, what is left of each node; None: they are dealt whole.
        topology: the switches; where whole nodes are dealt, everybody gets nodes near each other.
    """
    if len(claimants) == 1 and rooms is None and _takes_all(claimants[0], nodes):
        order = sorted(nodes, key=lambda node: -(node.until_s or inf))
        return Deal({claimants[0].key: tuple(node.name for node in order)}, {})
    if rooms is not None:
        dealt = _in_parts(nodes, claimants, shares or Shares(), rooms)
    else:
        dealt = _filled(NodeStock(nodes, claimants, topology), claimants, shares or Shares())
    return replace(
        dealt, places={claimant.key: (*claimant.settled, *dealt.places[claimant.key]) for claimant in claimants}
    )


def _in_parts(nodes: Sequence[Place], claimants: Sequence[Claimant], shares: Shares, rooms: Rooms) -> Deal:
    """Deal parts; who is dealt as much as they hold keeps what they hold, if all get as much that way.

    While it is dealt nobody knows who will have to give up something: the first place that makes room for somebody
    may be one that its holder is dealt again, elsewhere. So it is dealt once to know how much everybody gets, and
    where somebody would have to move for nothing once more, such that all keep their own first.
    """
    stock = PartStock(nodes, claimants, rooms)
    filled = _Table(stock, claimants, shares).fill()
    sizes = [size - len(claimant.settled) for claimant, size in zip(claimants, filled, strict=True)]
    keeping = [min(stock.held(row), size) for row, size in enumerate(sizes)]
    if keeping == [stock.kept(row) for row in range(len(claimants))]:
        return stock.named()
    again = PartStock(nodes, claimants, rooms)
    rows = [row for row, count in enumerate(keeping) for _ in range(count)]
    rows += [row for row, size in enumerate(sizes) for _ in range(size - keeping[row])]
    return again.named() if all(map(again.take, rows)) else stock.named()


def _filled(stock: Stock, claimants: Sequence[Claimant], shares: Shares) -> Deal:
    _Table(stock, claimants, shares).fill()
    return stock.named()


def _takes_all(claimant: Claimant, nodes: Sequence[Place]) -> bool:
    """Whether somebody who shares with nobody has, or can use, every node."""
    own = {None, *(want.trainer for want in claimant.wants)}
    return (
        not claimant.capped_by
        and bool(claimant.sizes >> len(nodes) & 1)
        and own.issuperset([node.holder for node in nodes])
        and claimant.eligible.issuperset([node.name for node in nodes])
    )


class _Table:
    """How many places everybody has got, and whose turn it is."""

    def __init__(self, stock: Stock, claimants: Sequence[Claimant], shares: Shares) -> None:
        self._stock = stock
        self._claimants = claimants
        self._shares = shares
        self._size = [len(claimant.settled) for claimant in claimants]
        most = [stock.most(row) + size for row, size in enumerate(self._size)]
        self._sizes = [claimant.sizes & ((1 << (most[row] + 1)) - 1) for row, claimant in enumerate(claimants)]
        self._next = [self._next_size(row) for row in range(len(claimants))]
        self._total: defaultdict[str, float] = defaultdict(float)
        for claimant, size in zip(claimants, self._size, strict=True):
            self._count(claimant, size * claimant.worth)
        self._fraction = self._fractions()

    def fill(self) -> Sequence[int]:
        """Let the lowest claimant take its next step, until no step fits any more; the places of each then."""
        waiting = [(self._level(row), row) for row in range(len(self._claimants)) if self._next[row]]
        heapq.heapify(waiting)
        while waiting:
            level, row = heapq.heappop(waiting)
            if (now := self._level(row)) > level:  # another claimant of the same path has gained meanwhile
                heapq.heappush(waiting, (now, row))
                continue
            if not waiting:
                self._aim_high(row)
            if self._step(row) and self._next[row]:
                heapq.heappush(waiting, (self._level(row), row))
        return self._size

    def _aim_high(self, row: int) -> None:
        """Let the last claimant that wants more take its largest size in one step, if nodes for that are free."""
        largest = self._sizes[row].bit_length() - 1
        if not self._claimants[row].capped_by and largest <= self._size[row] + self._stock.free(row):
            self._next[row] = largest

    def _fractions(self) -> list[float]:
        """Which part of all nodes is each claimant's by right: equal among equals at each place of the paths."""
        taking_part = [
            claimant
            for claimant, step in zip(self._claimants, self._next, strict=True)
            if step or claimant.settled
        ]
        below: defaultdict[tuple[str, ...], set[str]] = defaultdict(set)
        for claimant in taking_part:
            for depth, member in enumerate(claimant.path):
                below[claimant.path[:depth]].add(member)
        alike = Counter(claimant.path for claimant in taking_part)
        weights = {path: sum(map(self._weight, members)) for path, members in below.items()}
        fractions = []
        for claimant in self._claimants:
            part = 1.0 / max(alike[claimant.path], 1)
            for depth, member in enumerate(claimant.path):
                part *= self._weight(member) / weights.get(claimant.path[:depth], 1.0)
            fractions.append(part)
        return fractions

    def _weight(self, member: str) -> float:
        return self._shares.weight.get(member, 1.0)

    def _next_size(self, row: int) -> int:
        """The next larger usable number; 0: there is none."""
        above = self._sizes[row] >> (self._size[row] + 1)
        return (above & -above).bit_length() + self._size[row] if above else 0

    def _level(self, row: int) -> tuple[float, ...]:
        """Where the claimant stands after its next step: the lowest goes first.

        Steps within a claimant's own share come before all others. The rest goes by shares, the outermost first.
        Of equals, those who have the nodes already keep them, but for the first step: there who had least before
        comes first, so that all have their turn where there is not enough for all.
        """
        claimant, size = self._claimants[row], self._next[row]
        own = size * claimant.worth / self._fraction[row]
        gained = (size - self._size[row]) * claimant.worth
        path = tuple((self._total[member] + gained) / self._weight(member) for member in claimant.path)
        comes_new = float(self._size[row] > 0 and len(claimant.settled) + self._stock.held(row) < size)
        before = tuple(self._shares.used.get(member, 0.0) for member in claimant.path)
        if own <= self._stock.nodes + _SLACK:
            return (0.0, own, comes_new, *before)
        return (1.0, *path, size * claimant.worth, comes_new, *before)

    def _step(self, row: int) -> bool:
        """Give a claimant what it needs for its next size; False: there is not enough for it."""
        count = self._next[row] - self._size[row]
        claimant = self._claimants[row]
        caps = self._shares.caps
        gained = count * claimant.worth
        if any(self._total[cap] + gained > caps.get(cap, inf) + _SLACK for cap in claimant.capped_by):
            return False
        before = self._stock.save() if count > 1 else None
        for _ in range(count):
            if not self._stock.take(row):
                if before is not None:
                    self._stock.restore(before)
                return False
        self._size[row] = self._next[row]
        self._next[row] = self._next_size(row)
        self._count(claimant, gained)
        return True

    def _count(self, claimant: Claimant, gained: float) -> None:
        for member in {*claimant.path, *claimant.capped_by}:
            self._total[member] += gained
