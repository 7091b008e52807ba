"""Dealing: division of the offered nodes among users, before a policy decides within each part.

Users do not compete inside one objective, so nothing that a user submits (curves, weights, costs, numbers of
trainers, minimum sizes) can take another user's share. A deal keeps these invariants:

1. A node is dealt to one claimant at most, and only to one that may use it.
2. A claimant gets only numbers of nodes that its trainers can use together: no node waits for a minimum size.
3. *Guaranteed:* if all claimants may use all nodes, each gets at least the largest number that it can use of
   its share, rounded down. Shares are equal, or weighted by the site; a claimant that can use nothing has none.
4. *Work-conserving:* what a claimant leaves goes to the others, always to the one at the lowest level
   (nodes by weight) after the step to its next usable size; in the end no claimant's next step fits into the
   rest.
5. *Stable:* a claimant keeps the nodes that its trainers hold as far as its number of nodes allows, and dealing
   again what was dealt moves nothing.
6. Limits (``Shares.caps``) are never exceeded.
7. *Settled:* what is expected to become free soon by itself stays where it is (``claimants.py``) and counts as
   part of its claimant's share; so 3 and 6 may take as long as that.

If nodes are dealt in parts, places are dealt: a place is what a task of the claimant takes of a node. A claimant's
level is then what its places are worth in nodes: the largest part of the CPUs, the memory or the GPUs of a node
(dominant resource fairness, Ghodsi et al., NSDI 2011). How places of different sizes fit on nodes is found by
trying, and by a search that is exact within a limit of work (``bin_packing.py``): 4 holds within that limit.
"""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from math import inf
from typing import Protocol

from freetrain.core.grouping import grouped
from freetrain.core.place import Place
from freetrain.core.topology import FLAT, Topology
from freetrain.lending.rooms import Rooms
from freetrain.lending.sharing.claims import Claimant, Deal, Shares, keep
from freetrain.lending.sharing.part_stock import PartStock


def hand_out(
    pool: Sequence[Place], turns: Iterable[int], parts: Sequence[Sequence[str]], topology: Topology
) -> Iterator[tuple[str, int]]:
    """Nodes with the rows of the claimants that get them, in turn.

    Nodes go in the order of the pool. Among nodes that stay equally long and are all free, or all held, a claimant
    gets one under the leaf switch that has most of its nodes already, else under the leaf with most nodes left.
    """
    if not topology.leaves:
        yield from zip((node.name for node in pool), turns, strict=False)
        return
    own = [Counter(map(topology.leaf_of, part)) for part in parts]
    waiting = iter(turns)
    for _, alike in groupby(pool, key=lambda node: (node.holder is None, node.until_s)):
        left = grouped((topology.leaf_of(node.name), node.name) for node in alike)
        while left:
            row = next(waiting, None)
            if row is None:
                return
            leaf = max(left, key=lambda leaf: (own[row][leaf], len(left[leaf]), -topology.rank_of_leaf(leaf)))
            yield left[leaf].pop(0), row
            own[row][leaf] += 1
            if not left[leaf]:
                del left[leaf]


class NodeStock:
    """Nodes by kind, and the number of each kind that every claimant has got.

    Nodes that the same claimants may use are one kind. Counts per kind are enough to deal: which nodes they are is
    settled at the end (:meth:`named`), so that a machine of thousands of nodes is dealt in milliseconds.
    """

    def __init__(
        self, nodes: Sequence[Place], claimants: Sequence[Claimant], held: Mapping[str, int], topology: Topology
    ) -> None:
        self._claimants = claimants
        self._topology = topology
        self._held_by = held
        # By identity, because comparing sets of thousands of nodes for each claimant would take longer than the
        # deal.
        sets = list({id(claimant.eligible): claimant.eligible for claimant in claimants}.values())
        # Nodes that a trainer of no claimant holds are dealt to nobody.
        dealt = (node for node in nodes if node.holder is None or node.name in held)
        kinds = grouped((tuple(node.name in names for names in sets), node) for node in dealt)
        position = {id(names): number for number, names in enumerate(sets)}
        self._for_nobody = [node.name for node in kinds.pop((False,) * len(sets), []) if node.holder]
        self._kinds = list(kinds.values())
        self._open = [
            [kind for kind, open_to in enumerate(kinds) if open_to[position[id(claimant.eligible)]]]
            for claimant in claimants
        ]
        self._wanted = Counter(kind for kinds in self._open for kind in kinds)
        self._free = list(map(len, self._kinds))
        self._given = [[0] * len(self._kinds) for _ in claimants]
        self._held = [[0] * len(self._kinds) for _ in claimants]
        for kind, members in enumerate(self._kinds):
            for node in members:
                if node.holder is not None:
                    self._held[held[node.name]][kind] += 1
        self.nodes = float(sum(self._free) + sum(len(claimant.settled) for claimant in claimants))
        self.most: Sequence[int] = [sum(len(self._kinds[kind]) for kind in kinds) for kinds in self._open]

    def take(self, row: int, count: int) -> bool:
        """Give a claimant so many more nodes, or none; False: there is no room for all of them."""
        # A step of one place that does not fit changes nothing; copies are dear with many kinds.
        before = (self._free.copy(), [given.copy() for given in self._given]) if count > 1 else None
        if all(self._take(row) for _ in range(count)):
            return True
        if before is not None:
            self._free, self._given = before
        return False

    def _take(self, row: int) -> bool:
        """Give it a node: of a kind that it holds, else of the kind with the smallest number of users."""
        kinds = [kind for kind in self._open[row] if self._free[kind]]
        if not kinds:
            return self._pass_on(row)
        held, given = self._held[row], self._given[row]
        kind = max(kinds, key=lambda kind: (held[kind] > given[kind], -self._wanted[kind]))
        self._free[kind] -= 1
        given[kind] += 1
        return True

    def _pass_on(self, row: int) -> bool:
        """Give a claimant a node of others, who take another kind instead.

        A breadth-first search finds the shortest chain of such exchanges that ends at a kind with a node left: an
        augmenting path of bipartite matching, so a node is refused only if no exchange at all could provide it.
        """
        came: dict[int, tuple[int, int] | None] = dict.fromkeys(self._open[row])
        queue = list(came)
        # The list grows as it is gone through: that is the breadth-first order.
        for kind in queue:
            for other, given in enumerate(self._given):
                if not given[kind]:
                    continue
                for instead in self._open[other]:
                    if instead in came:
                        continue
                    came[instead] = (kind, other)
                    if self._free[instead]:
                        self._shift(row, instead, came)
                        return True
                    queue.append(instead)
        return False

    def _shift(self, row: int, kind: int, came: Mapping[int, tuple[int, int] | None]) -> None:
        self._free[kind] -= 1
        while (link := came[kind]) is not None:
            previous, other = link
            self._given[other][kind] += 1
            self._given[other][previous] -= 1
            kind = previous
        self._given[row][kind] += 1

    def named(self) -> Deal:
        """The deal, with the names of the nodes that the claimants got: those that their trainers hold first."""
        parts: list[list[str]] = [[] for _ in self._claimants]
        leaving: dict[str, Hashable | None] = dict.fromkeys(self._for_nobody)
        sizes = Counter(node.holder for members in self._kinds for node in members)
        for kind, members in enumerate(self._kinds):
            by_life = sorted(members, key=lambda node: -(node.until_s or inf))
            by_holder = grouped((self._held_by.get(node.name), node) for node in by_life)
            pool, lacking = by_holder[None], {}
            for row, claimant in enumerate(self._claimants):
                kept, given_up = keep(by_holder[row], self._given[row][kind], claimant.wants, sizes)
                parts[row] += [node.name for node in kept]
                pool += given_up
                leaving.update(dict.fromkeys(node.name for node in given_up))
                lacking[row] = self._given[row][kind] - len(kept)
            for name, row in hand_out(pool, _in_turns(lacking), list(map(tuple, parts)), self._topology):
                parts[row].append(name)
                if name in leaving:
                    leaving[name] = self._claimants[row].key
        keys = [claimant.key for claimant in self._claimants]
        return Deal(dict(zip(keys, map(tuple, parts), strict=True)), leaving)


def _in_turns(lacking: Mapping[int, int]) -> list[int]:
    turns = [(turn, row) for row, count in lacking.items() for turn in range(count)]
    return [row for _, row in sorted(turns)]


# Levels are sums of parts such as 1/3: equal ones differ in their last digits.
_SLACK = 1e-9


class Stock(Protocol):
    """Nodes or parts of nodes to be dealt. Claimants are given by their row.

    There are two stocks, because what makes one quick does not hold for the other. Whole nodes are of a few kinds,
    which are counted; of 950 nodes of which parts are lent, 380 to 860 differ. Dealt node by node as parts are,
    8,000 whole nodes take five times as long, and a look of the daemon twice as long.

    Attributes:
        nodes: number of nodes.
        most: number of places for which each claimant would have room if it were alone.
    """

    nodes: float
    most: Sequence[int]

    def take(self, row: int, count: int) -> bool:
        """Give a claimant so many more places, or none; False: there is no room for all of them."""

    def named(self) -> Deal:
        """The deal, with the names of the places that the claimants got."""


def deal(
    nodes: Sequence[Place],
    claimants: Sequence[Claimant],
    shares: Shares | None = None,
    rooms: Rooms | None = None,
    topology: Topology = FLAT,
) -> Deal:
    """Deal the nodes.

    Claimants have different keys, and each trainer is in one of them. Without ``rooms`` nodes are dealt whole;
    those held by a trainer of no claimant are not dealt.
    """
    if len(claimants) == 1 and rooms is None and _takes_all(claimants[0], nodes):
        order = sorted(nodes, key=lambda node: -(node.until_s or inf))
        return Deal({claimants[0].key: tuple(node.name for node in order)}, {})
    held = _held_by(nodes, claimants)
    if rooms is not None:
        dealt = _in_parts(nodes, claimants, held, shares or Shares(), rooms)
    else:
        dealt = _DealTable(
            NodeStock(nodes, claimants, held, topology), claimants, held, shares or Shares()
        ).filled()
    return replace(
        dealt, places={claimant.key: (*claimant.settled, *dealt.places[claimant.key]) for claimant in claimants}
    )


def _held_by(places: Iterable[Place], claimants: Sequence[Claimant]) -> Mapping[str, int]:
    """Held place → the row of its claimant; settled places, and those of other trainers, are left out."""
    rows = {trainer: row for row, claimant in enumerate(claimants) for trainer in claimant.trainers}
    settled = {name for claimant in claimants for name in claimant.settled}
    held = ((place.name, rows.get(place.holder or "")) for place in places)
    return {name: row for name, row in held if row is not None and name not in settled}


def _in_parts(
    nodes: Sequence[Place], claimants: Sequence[Claimant], held: Mapping[str, int], shares: Shares, rooms: Rooms
) -> Deal:
    """Deal parts; a claimant that is dealt as much as it holds keeps what it holds, if all get as much that way.

    Only the finished deal shows which claimants give up places: a place that made room for another claimant may be
    dealt to its holder again, on another node. So the first deal finds the sizes. If it moved a claimant
    needlessly, a second deal of the same sizes lets all keep their own places first.
    """
    dealt = _DealTable(PartStock(nodes, claimants, held, rooms), claimants, held, shares).filled()
    parts, count = [dealt.places[claimant.key] for claimant in claimants], Counter(held.values())
    sizes = list(map(len, parts))
    keeping = [min(count[row], size) for row, size in enumerate(sizes)]
    if keeping == [len(held.keys() & part) for part in parts]:
        return dealt
    again = PartStock(nodes, claimants, held, rooms)
    rows = [*enumerate(keeping), *enumerate(size - kept for size, kept in zip(sizes, keeping, strict=True))]
    return again.named() if all(again.take(*row) for row in rows) else dealt


def _takes_all(claimant: Claimant, nodes: Sequence[Place]) -> bool:
    return (
        not claimant.capped_by
        and bool(claimant.sizes >> len(nodes) & 1)
        and {None, *claimant.trainers}.issuperset([node.holder for node in nodes])
        and claimant.eligible.issuperset([node.name for node in nodes])
    )


class _DealTable:
    """Number of places that each claimant has got, and the order of their turns."""

    def __init__(
        self, stock: Stock, claimants: Sequence[Claimant], held: Mapping[str, int], shares: Shares
    ) -> None:
        self._stock = stock
        self._held = Counter(held.values())
        self._claimants = claimants
        self._shares = shares
        self._size = [len(claimant.settled) for claimant in claimants]
        most = [stock.most[row] + size for row, size in enumerate(self._size)]
        self._sizes = [claimant.sizes & ((1 << (most[row] + 1)) - 1) for row, claimant in enumerate(claimants)]
        self._next = [self._next_size(row) for row in range(len(claimants))]
        self._total: defaultdict[str, float] = defaultdict(float)
        for claimant, size in zip(claimants, self._size, strict=True):
            self._count(claimant, size * claimant.worth)
        self._fraction = self._fractions()
        used = self._shares.used
        self._used = [tuple(used.get(member, 0.0) for member in claimant.path) for claimant in claimants]

    def filled(self) -> Deal:
        """The deal once the claimant at the lowest level has taken its next step until no step fits."""
        waiting = [(self._level(row), row) for row in range(len(self._claimants)) if self._next[row]]
        heapq.heapify(waiting)
        while waiting:
            level, row = heapq.heappop(waiting)
            # The entry is old if a claimant of the same path has gained since: levels only rise.
            if (now := self._level(row)) > level:
                heapq.heappush(waiting, (now, row))
                continue
            goes_on = self._step(row) and self._next[row]
            # Alone it is compared with nobody: its levels would take longer than its steps.
            while goes_on and not waiting:
                goes_on = self._step(row) and self._next[row]
            if goes_on:
                heapq.heappush(waiting, (self._level(row), row))
        return self._stock.named()

    def _fractions(self) -> list[float]:
        """Each claimant's share of all nodes: equal, or by weight, among the members at each level of paths."""
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
        # ``above & -above`` is the lowest bit that is set.
        above = self._sizes[row] >> (self._size[row] + 1)
        return (above & -above).bit_length() + self._size[row] if above else 0

    def _level(self, row: int) -> tuple[float, ...]:
        """The claimant's level after its next step: the lowest goes first.

        Steps within a claimant's own share come before all others. The others go by the levels of its path, the
        outermost first. Among equals, claimants that hold the nodes already keep them. At the first step the
        claimant with the least past use goes first instead, so that all have a turn if there is not enough for
        all.
        """
        claimant, size = self._claimants[row], self._next[row]
        own = size * claimant.worth / self._fraction[row]
        comes_new = float(self._size[row] > 0 and len(claimant.settled) + self._held[row] < size)
        if own <= self._stock.nodes + _SLACK:
            return (0.0, own, comes_new, *self._used[row])
        gained = (size - self._size[row]) * claimant.worth
        path = ((self._total[member] + gained) / self._weight(member) for member in claimant.path)
        return (1.0, *path, size * claimant.worth, comes_new, *self._used[row])

    def _step(self, row: int) -> bool:
        """Give a claimant the places up to its next size, or none; False: they do not fit."""
        count = self._next[row] - self._size[row]
        claimant = self._claimants[row]
        caps = self._shares.caps
        gained = count * claimant.worth
        if any(self._total[cap] + gained > caps.get(cap, inf) + _SLACK for cap in claimant.capped_by):
            return False
        if not self._stock.take(row, count):
            return False
        self._size[row] = self._next[row]
        self._next[row] = self._next_size(row)
        self._count(claimant, gained)
        return True

    def _count(self, claimant: Claimant, gained: float) -> None:
        for member in {*claimant.path, *claimant.capped_by}:
            self._total[member] += gained
