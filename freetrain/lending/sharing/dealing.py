"""Dealing: how many of the offered nodes each user may have, and which, before a policy decides within his part.

Users do not compete inside one objective, so that nothing one of them hands in (curves, weights, costs, numbers of
trainers, minimum sizes) can take what is another's. What is dealt keeps these invariants:

1. A node is dealt to one claimant at most, and only to one that may use it.
2. A claimant gets only numbers of nodes that its trainers can use together: nothing waits for a minimum size.
3. *Guaranteed:* where all claimants may use all nodes, each gets at least the largest number that it can use of
   its share, rounded down. Shares are equal, or as the site weighs them; who can use nothing takes part in none.
4. *Work-conserving:* what somebody leaves goes on to the others, always to whoever is at the lowest level (nodes
   by weight) after the step to its next usable size; in the end no claimant's next step fits into what is left.
5. *Stable:* a claimant keeps the nodes that its trainers hold as far as its number of nodes allows, and dealing
   again what was dealt moves nothing.
6. Limits (``Shares.caps``) are never exceeded.
"""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import inf

from freetrain.core.classes import Offer

_SLACK = 1e-9


@dataclass(frozen=True, slots=True)
class Want:
    """A trainer, as far as dealing is concerned.

    Attributes:
        trainer: its id.
        fewest: fewest nodes that it can use.
        most: most nodes that it would take.
    """

    trainer: str
    fewest: int
    most: int


@dataclass(frozen=True)
class Claimant:
    """One user's trainers that may use the same nodes.

    Attributes:
        key: names it.
        path: which shares it is part of, outermost first, as ("account ml", "user alice").
        wants: its trainers; those at the end lose their nodes first.
        eligible: the nodes that it may use; claimants with the same needs should have the same object.
        most: most nodes that it takes in all.
        capped_by: the limits that count its nodes.
    """

    key: Hashable
    path: tuple[str, ...]
    wants: tuple[Want, ...]
    eligible: frozenset[str]
    most: float = inf
    capped_by: tuple[str, ...] = ()

    @cached_property
    def sizes(self) -> int:
        """The numbers of nodes that its trainers can use together, as bits."""
        return usable_sizes(self.wants, int(min(self.most, len(self.eligible))))


@dataclass(frozen=True)
class Shares:
    """How the site wants nodes shared.

    Attributes:
        weight: member of a path → its weight against others of the same place; 1 where it is missing.
        used: member of a path → what it had before; of equals, who had least comes first.
        caps: limit → most nodes.
    """

    weight: Mapping[str, float] = field(default_factory=dict)
    used: Mapping[str, float] = field(default_factory=dict)
    caps: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Deal:
    """The answer.

    Attributes:
        parts: key of a claimant → its nodes, longest-lived first within each kind.
        leaving: node that its holder has to give up → key of the claimant that gets it; None: nobody does.
    """

    parts: Mapping[Hashable, tuple[str, ...]]
    leaving: Mapping[str, Hashable | None]


def usable_sizes(wants: Iterable[Want], most: int) -> int:
    """Numbers of nodes, ``most`` at most, that add up from sizes of some of the trainers: bit n stands for n."""
    mask = (1 << (most + 1)) - 1
    sums = 1
    for want in wants:
        fewest, largest = max(want.fewest, 1), min(want.most, most)
        if fewest <= largest:
            sums |= _shifted_by(sums, fewest, largest) & mask
        if sums == mask:  # all of them can be used, whoever comes behind
            break
    return sums


def deal(nodes: Sequence[Offer], claimants: Sequence[Claimant], shares: Shares | None = None) -> Deal:
    """Deal the nodes.

    Args:
        nodes: all that are offered; those held by a trainer of no claimant are dealt to nobody.
        claimants: with different keys, and each trainer in one of them.
        shares: how; None: equal.
    """
    if len(claimants) == 1 and _takes_all(claimants[0], nodes):
        order = sorted(nodes, key=lambda node: -(node.free_until_s or inf))
        return Deal({claimants[0].key: tuple(node.name for node in order)}, {})
    table = _Table(nodes, claimants, shares or Shares())
    table.fill()
    return table.named()


def _takes_all(claimant: Claimant, nodes: Sequence[Offer]) -> bool:
    """Whether somebody who shares with nobody has, or can use, every node."""
    own = {None, *(want.trainer for want in claimant.wants)}
    return (
        not claimant.capped_by
        and bool(claimant.sizes >> len(nodes) & 1)
        and all(node.held_by in own and node.name in claimant.eligible for node in nodes)
    )


def _shifted_by(bits: int, fewest: int, most: int) -> int:
    """``bits`` shifted by each of ``fewest`` … ``most``, all together."""
    spread, width, wanted = bits << fewest, 1, most - fewest + 1
    while width < wanted:
        step = min(width, wanted - width)
        spread |= spread << step
        width += step
    return spread


class _Table:
    """Nodes by kind (all that the same claimants may use are one kind), and how many of each everybody has got."""

    def __init__(self, nodes: Sequence[Offer], claimants: Sequence[Claimant], shares: Shares) -> None:
        self._claimants = claimants
        self._shares = shares
        self._of_trainer = {want.trainer: row for row, one in enumerate(claimants) for want in one.wants}
        sets = list({id(one.eligible): one.eligible for one in claimants}.values())
        kinds: defaultdict[tuple[bool, ...], list[Offer]] = defaultdict(list)
        for node in nodes:
            if node.held_by is None or node.held_by in self._of_trainer:
                kinds[tuple(node.name in names for names in sets)].append(node)
        position = {id(names): number for number, names in enumerate(sets)}
        self._kinds = [(open_to, kind) for open_to, kind in kinds.items() if any(open_to)]
        self._for_nobody = [
            node.name for open_to, kind in kinds.items() if not any(open_to) for node in kind if node.held_by
        ]
        self._open = [
            [kind for kind, (open_to, _) in enumerate(self._kinds) if open_to[position[id(one.eligible)]]]
            for one in claimants
        ]
        self._wanted = Counter(kind for kinds in self._open for kind in kinds)
        self._free = [len(kind) for _, kind in self._kinds]
        self._node_count = sum(self._free)
        self._given = [[0] * len(self._kinds) for _ in claimants]
        self._held = [[0] * len(self._kinds) for _ in claimants]
        for kind, (_, members) in enumerate(self._kinds):
            for node in members:
                if node.held_by is not None:
                    self._held[self._of_trainer[node.held_by]][kind] += 1
        self._sizes = [
            one.sizes & ((1 << (sum(self._free[kind] for kind in kinds) + 1)) - 1)
            for one, kinds in zip(claimants, self._open, strict=True)
        ]
        self._size = [0] * len(claimants)
        self._next = [self._next_size(row) for row in range(len(claimants))]
        self._total: Counter[str] = Counter()
        self._fraction = self._fractions()

    def fill(self) -> None:
        """Let whoever is lowest take its next step, until no step fits any more."""
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

    def _aim_high(self, row: int) -> None:
        """Let the last claimant that wants more take its largest size in one step, if nodes for that are free."""
        largest = self._sizes[row].bit_length() - 1
        free = sum(self._free[kind] for kind in self._open[row])
        if not self._claimants[row].capped_by and largest <= self._size[row] + free:
            self._next[row] = largest

    def _fractions(self) -> list[float]:
        """Which part of all nodes is each claimant's by right: equal among equals at each place of the paths."""
        taking_part = [one for one, following in zip(self._claimants, self._next, strict=True) if following]
        below: defaultdict[tuple[str, ...], set[str]] = defaultdict(set)
        for one in taking_part:
            for depth, member in enumerate(one.path):
                below[one.path[:depth]].add(member)
        alike = Counter(one.path for one in taking_part)
        weights = {path: sum(map(self._weight, members)) for path, members in below.items()}
        fractions = []
        for one in self._claimants:
            part = 1.0 / max(alike[one.path], 1)
            for depth, member in enumerate(one.path):
                part *= self._weight(member) / weights.get(one.path[:depth], 1.0)
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
        one, size = self._claimants[row], self._next[row]
        own = size / self._fraction[row]
        gained = size - self._size[row]
        path = tuple((self._total[member] + gained) / self._weight(member) for member in one.path)
        comes_new = float(self._size[row] > 0 and sum(self._held[row]) < size)
        before = tuple(self._shares.used.get(member, 0.0) for member in one.path)
        if own <= self._node_count + _SLACK:
            return (0.0, own, comes_new, *before)
        return (1.0, *path, float(size), comes_new, *before)

    def _step(self, row: int) -> bool:
        """Give a claimant what it needs for its next size; False: there is not enough for it."""
        count = self._next[row] - self._size[row]
        one = self._claimants[row]
        caps = self._shares.caps
        if any(self._total[cap] + count > caps.get(cap, inf) for cap in one.capped_by):
            return False
        before = (self._free.copy(), [given.copy() for given in self._given]) if count > 1 else None
        for _ in range(count):
            if not self._take(row):
                if before is not None:
                    self._free, self._given = before
                return False
        self._size[row] = self._next[row]
        self._next[row] = self._next_size(row)
        for member in {*one.path, *one.capped_by}:
            self._total[member] += count
        return True

    def _take(self, row: int) -> bool:
        """One node: of a kind that it holds already, else of one that few others may use."""
        kinds = [kind for kind in self._open[row] if self._free[kind]]
        if not kinds:
            return self._pass_on(row)
        held, given = self._held[row], self._given[row]
        kind = max(kinds, key=lambda kind: (held[kind] > given[kind], -self._wanted[kind]))
        self._free[kind] -= 1
        given[kind] += 1
        return True

    def _pass_on(self, row: int) -> bool:
        """One node from others, who take another kind instead, along the shortest chain to a kind that is free."""
        came: dict[int, tuple[int, int] | None] = dict.fromkeys(self._open[row])
        queue = list(came)
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
        """Which nodes they are."""
        parts: list[list[str]] = [[] for _ in self._claimants]
        leaving: dict[str, Hashable | None] = dict.fromkeys(self._for_nobody)
        sizes = Counter(node.held_by for _, kind in self._kinds for node in kind)
        for kind, (_, members) in enumerate(self._kinds):
            by_holder: defaultdict[int | None, list[Offer]] = defaultdict(list)
            for node in sorted(members, key=lambda node: -(node.free_until_s or inf)):
                by_holder[self._of_trainer.get(node.held_by or "")].append(node)
            pool = [node.name for node in by_holder[None]]
            lacking = {}
            for row, one in enumerate(self._claimants):
                kept, given_up = _keep(by_holder[row], self._given[row][kind], one.wants, sizes)
                parts[row] += kept
                pool += given_up
                leaving.update(dict.fromkeys(given_up))
                lacking[row] = self._given[row][kind] - len(kept)
            for name, row in zip(pool, _in_turns(lacking), strict=False):
                parts[row].append(name)
                if name in leaving:
                    leaving[name] = self._claimants[row].key
        keys = [one.key for one in self._claimants]
        return Deal(dict(zip(keys, map(tuple, parts), strict=True)), leaving)


def _keep(
    held: Sequence[Offer], count: int, wants: Sequence[Want], sizes: Counter[str | None]
) -> tuple[list[str], list[str]]:
    """The nodes, longest-lived first, that a claimant keeps of those it holds, and those that it gives up.

    A trainer far above its minimum gives up nodes first; where none is above it, one trainer gives up all.

    Args:
        held: longest-lived first.
        count: how many it keeps.
        wants: its trainers.
        sizes: nodes that each trainer still has, of all kinds; kept up to date.
    """
    if len(held) <= count:
        return [node.name for node in held], []
    of_trainer: defaultdict[str | None, list[Offer]] = defaultdict(list)
    for node in held:
        of_trainer[node.held_by].append(node)
    order = {want.trainer: (number, want.fewest) for number, want in enumerate(wants)}

    def gives_first(trainer: str | None) -> tuple[int, bool, int]:
        number, fewest = order[str(trainer)]
        spare = sizes[trainer] - fewest
        return max(spare, 0), spare < 0, number

    given_up = []
    for _ in range(len(held) - count):
        trainer = max(of_trainer, key=gives_first)
        given_up.append(of_trainer[trainer].pop().name)
        sizes[trainer] -= 1
        if not of_trainer[trainer]:
            del of_trainer[trainer]
    gone = set(given_up)
    return [node.name for node in held if node.name not in gone], given_up


def _in_turns(lacking: Mapping[int, int]) -> list[int]:
    """Each row as often as it lacks a node, one after the other."""
    turns = [(turn, row) for row, count in lacking.items() for turn in range(count)]
    return [row for _, row in sorted(turns)]
