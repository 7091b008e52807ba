"""Nodes that are dealt in parts, during a deal: what is left of each, and which places lie on it.

Each change can be undone, because dealing tries steps and takes them back if they do not fit.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import inf

from freetrain.core.amounts import Amount, left_of
from freetrain.lending.sharing.claims import Claimant

Size = tuple[int, Amount | None]
"""What a place takes of which nodes: the identity of the set of these, and how much; None: all of a node."""

Order = tuple[int, int, float, int]
"""The room that is used first: GPUs and CPUs that are left, how long the node stays, its number."""


# Compared by identity: two places of one size on one node are two places.
@dataclass(slots=True, eq=False)
class DealtPlace:
    """A place that a claimant holds, or has been given.

    Attributes:
        name: as the look calls it; empty: it was given in this deal and is not held yet.
    """

    name: str
    row: int
    amount: Amount
    node: PartNode


@dataclass(slots=True, eq=False)
class PartNode:
    """A node.

    Attributes:
        until_s: when it will be wanted, UTC epoch seconds; None: unknown.
        used_by_site: whether one of the site's jobs has part of it.
        held: places on it that their holders have not been given again; the first ones leave first.
        given: places on it that were given in this deal.
    """

    name: str
    until_s: float | None
    room: Amount
    used_by_site: bool
    held: list[DealtPlace] = field(default_factory=list)
    given: list[DealtPlace] = field(default_factory=list)

    def takes(self, each: Amount | None) -> bool:
        """Whether there is room for a place; None: a place that takes all of the node, which must be empty."""
        if each is None:
            return not (self.used_by_site or self.held or self.given)
        return left_of(self.room, each) is not None

    def order(self, number: int) -> Order:
        """The sort key of nodes: the smallest room is used first (best fit)."""
        return self.room.gpus, self.room.cpus, -(self.until_s or inf), number

    @property
    def movable(self) -> list[DealtPlace]:
        """The places on it that are not held yet, so that they can lie on any other node."""
        return [place for place in self.given if not place.name]


def size_of(claimant: Claimant) -> Size:
    """The size of this claimant's places; claimants of one size find room on the same nodes."""
    return id(claimant.eligible), claimant.each


class PartNodes:
    """All nodes, and the changes to them.

    Each size has a heap of the nodes with room for it. A change of a node's room pushes a new entry; old entries
    stay and are dropped when they come up, which is cheaper than to remove them.

    Of each claimant's held places it keeps the last ones first.

    Attributes:
        given: to each claimant, by its row.
        gains: how often room has come back, so that sizes that were refused may fit again.
    """

    def __init__(
        self, nodes: Sequence[PartNode], claimants: Sequence[Claimant], held: Sequence[Sequence[DealtPlace]]
    ) -> None:
        self.list = nodes
        self.given: list[list[DealtPlace]] = [[] for _ in claimants]
        self.gains = 0
        self._held = held
        self._not_kept = [len(places) for places in held]
        self._undo: list[Callable[[], None]] = []
        self._number = {node.name: number for number, node in enumerate(nodes)}
        self._eligible = {id(claimant.eligible): claimant.eligible for claimant in claimants}
        self._heaps: dict[Size, list[tuple[Order, PartNode]]] = {}
        for claimant in claimants:
            if size_of(claimant) not in self._heaps:
                may_use = [node for node in nodes if node.name in claimant.eligible and node.takes(claimant.each)]
                heap = [(node.order(self._number[node.name]), node) for node in may_use]
                heapq.heapify(heap)
                self._heaps[size_of(claimant)] = heap

    def first_taking(self, claimant: Claimant, but: PartNode | None = None) -> PartNode | None:
        """The node with the smallest room for a place of the claimant, other than ``but``."""
        heap = self._heaps[size_of(claimant)]
        passed, found = [], None
        while heap and found is None:
            order, node = heap[0]
            is_true = order == node.order(order[-1]) and node.takes(claimant.each)
            if is_true and node is not but:
                found = node
            else:
                heapq.heappop(heap)
                passed += [(order, node)] if is_true else []
        # Equal entries of one node may have come up several times; one of them is enough.
        for entry in passed[:1]:
            heapq.heappush(heap, entry)
        return found

    def save(self) -> int:
        """The present state, for :meth:`restore`."""
        return len(self._undo)

    def restore(self, saved: int) -> None:
        """Undo all that was done since the state was saved."""
        self.gains += len(self._undo) > saved
        while len(self._undo) > saved:
            self._undo.pop()()

    def keep_place(self, row: int) -> bool:
        """Give a claimant again the last place that it holds, of those whose room was not given to others."""
        while self._not_kept[row]:
            place = self._held[row][self._not_kept[row] - 1]
            self._remember(place.node, place)
            self._not_kept[row] -= 1
            if place in place.node.held:
                place.node.held.remove(place)
                place.node.given.append(place)
                self.given[row].append(place)
                return True
        return False

    def give(self, row: int, node: PartNode, each: Amount | None) -> None:
        """Give a claimant a new place on a node that has room for it; None: all of the node."""
        place = DealtPlace("", row, node.room if each is None else each, node)
        self._remember(node, place)
        self.given[row].append(place)
        self._lay(place, node, each)

    def evict(self, node: PartNode) -> None:
        """Let the first held place of a node leave."""
        self.gains += 1
        self._remember(node, node.held[0])
        self._set_room(node, node.room + node.held.pop(0).amount)

    def lift(self, place: DealtPlace) -> None:
        """Take a place that is not held yet off its node; it must be put on another before any place is given."""
        node = place.node
        self._remember(node, place)
        node.given.remove(place)
        self._set_room(node, node.room + place.amount)

    def put(self, place: DealtPlace, node: PartNode, each: Amount | None) -> None:
        """Put a lifted place on a node that has room for it; None: it takes all of the node."""
        self._remember(node, place)
        place.node, place.amount = node, node.room if each is None else each
        self._lay(place, node, each)

    def _lay(self, place: DealtPlace, node: PartNode, each: Amount | None) -> None:
        left = Amount() if each is None else left_of(node.room, each)
        assert left is not None
        node.given.append(place)
        self._set_room(node, left)

    def _remember(self, node: PartNode, place: DealtPlace) -> None:
        room, held, given = node.room, node.held.copy(), node.given.copy()
        before, amount, row = place.node, place.amount, place.row
        given_count, not_kept = len(self.given[row]), self._not_kept[row]

        def undo() -> None:
            node.held, node.given = held, given
            place.node, place.amount = before, amount
            del self.given[row][given_count:]
            self._not_kept[row] = not_kept
            self._set_room(node, room)

        self._undo.append(undo)

    def _set_room(self, node: PartNode, room: Amount) -> None:
        node.room = room
        entry = (node.order(self._number[node.name]), node)
        for (eligible, each), heap in self._heaps.items():
            if node.name in self._eligible[eligible] and node.takes(each):
                heapq.heappush(heap, entry)
