"""Whole nodes to be dealt: counted by kind, and passed on along chains of claimants, so that none is wasted."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from math import inf

from freetrain.core.place import Place
from freetrain.core.topology import FLAT, Topology
from freetrain.lending.sharing.claims import Claimant, Deal, keep


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
        left: defaultdict[str, list[str]] = defaultdict(list)
        for node in alike:
            left[topology.leaf_of(node.name)].append(node.name)
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
    """Nodes by kind, and how many of each kind every claimant has got.

    Nodes that the same claimants may use are one kind. Counts per kind are enough to deal: which nodes they are is
    settled at the end (:meth:`named`), so that a machine of thousands of nodes is dealt in milliseconds.
    """

    def __init__(self, nodes: Sequence[Place], claimants: Sequence[Claimant], topology: Topology = FLAT) -> None:
        self._claimants = claimants
        self._topology = topology
        self._of_trainer = {want.trainer: row for row, claimant in enumerate(claimants) for want in claimant.wants}
        # By identity, because comparing sets of thousands of nodes for each claimant would take longer than the
        # deal.
        sets = list({id(claimant.eligible): claimant.eligible for claimant in claimants}.values())
        kinds: defaultdict[tuple[bool, ...], list[Place]] = defaultdict(list)
        settled = {name for claimant in claimants for name in claimant.settled}
        for node in nodes:
            # Nodes that a trainer of no claimant holds are dealt to nobody.
            if node.name not in settled and (node.holder is None or node.holder in self._of_trainer):
                kinds[tuple(node.name in names for names in sets)].append(node)
        position = {id(names): number for number, names in enumerate(sets)}
        self._kinds = [(open_to, kind) for open_to, kind in kinds.items() if any(open_to)]
        self._for_nobody = [
            node.name for open_to, kind in kinds.items() if not any(open_to) for node in kind if node.holder
        ]
        self._open = [
            [kind for kind, (open_to, _) in enumerate(self._kinds) if open_to[position[id(claimant.eligible)]]]
            for claimant in claimants
        ]
        self._wanted = Counter(kind for kinds in self._open for kind in kinds)
        self._free = [len(kind) for _, kind in self._kinds]
        self._given = [[0] * len(self._kinds) for _ in claimants]
        self._held = [[0] * len(self._kinds) for _ in claimants]
        for kind, (_, members) in enumerate(self._kinds):
            for node in members:
                if node.holder is not None:
                    self._held[self._of_trainer[node.holder]][kind] += 1
        self._held_in_all = [sum(held) for held in self._held]
        self.nodes = sum(self._free) + len(settled)

    def most(self, row: int) -> int:
        """How many nodes there are of the kinds that it may use."""
        return sum(len(self._kinds[kind][1]) for kind in self._open[row])

    def held(self, row: int) -> int:
        """How many nodes its trainers hold."""
        return self._held_in_all[row]

    def free(self, row: int) -> int:
        """How many nodes of its kinds are left."""
        return sum(self._free[kind] for kind in self._open[row])

    def save(self) -> tuple[list[int], list[list[int]]]:
        """The present state, for :meth:`restore`."""
        return self._free.copy(), [given.copy() for given in self._given]

    def restore(self, saved: tuple[list[int], list[list[int]]]) -> None:
        """Undo all that was done since the state was saved."""
        self._free, self._given = saved

    def take(self, row: int) -> bool:
        """Give a claimant a node: of a kind that it holds, else of the kind with the smallest number of users."""
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
        """Which nodes the claimants got: those that their trainers hold first."""
        parts: list[list[str]] = [[] for _ in self._claimants]
        leaving: dict[str, Hashable | None] = dict.fromkeys(self._for_nobody)
        sizes = Counter(node.holder for _, kind in self._kinds for node in kind)
        for kind, (_, members) in enumerate(self._kinds):
            by_holder: defaultdict[int | None, list[Place]] = defaultdict(list)
            for node in sorted(members, key=lambda node: -(node.until_s or inf)):
                by_holder[self._of_trainer.get(node.holder or "")].append(node)
            pool, by_name = by_holder[None], {node.name: node for node in members}
            lacking = {}
            for row, claimant in enumerate(self._claimants):
                kept, given_up = keep(by_holder[row], self._given[row][kind], claimant.wants, sizes)
                parts[row] += kept
                pool += [by_name[name] for name in given_up]
                leaving.update(dict.fromkeys(given_up))
                lacking[row] = self._given[row][kind] - len(kept)
            for name, row in hand_out(pool, _in_turns(lacking), [list(part) for part in parts], self._topology):
                parts[row].append(name)
                if name in leaving:
                    leaving[name] = self._claimants[row].key
        keys = [claimant.key for claimant in self._claimants]
        return Deal(dict(zip(keys, map(tuple, parts), strict=True)), leaving)


def _in_turns(lacking: Mapping[int, int]) -> list[int]:
    """Each row as often as it lacks a node, in turns."""
    turns = [(turn, row) for row, count in lacking.items() for turn in range(count)]
    return [row for _, row in sorted(turns)]
