"""Nodes that are dealt in parts, while they are dealt: what is left of each, and which places lie on it.

Each change can be undone: dealing tries, and goes back where that came to nothing.
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


@dataclass(slots=True, eq=False)
class DealtPlace:
    """A place that a claimant holds, or has been given.

    Attributes:
        name: as the look calls it; empty: nobody holds it.
        row: its claimant.
        amount: what it takes of its node.
        node: where it lies.
    """

    name: str
    row: int
    amount: Amount
    node: PartNode


@dataclass(slots=True, eq=False)
class PartNode:
    """A node.

    Attributes:
        name: its name.
        until_s: when it will be wanted; None: nobody knows.
        room: what nobody has of it.
        used_by_site: whether the site has part of it.
        held: places on it that their holders have not been given again; they give up the first ones first.
        given: places on it that somebody has been given.
    """

    name: str
    until_s: float | None
    room: Amount
    used_by_site: bool
    held: list[DealtPlace] = field(default_factory=list)
    given: list[DealtPlace] = field(default_factory=list)

    def takes(self, each: Amount | None) -> bool:
        """Whether there is room for a place; one that takes all of a node wants nobody else there."""
        if each is None:
            return not (self.used_by_site or self.held or self.given)
        return left_of(self.room, each) is not None

    def order(self, number: int) -> Order:
        """The smallest room is used first."""
        return self.room.gpus, self.room.cpus, -(self.until_s or inf), number

    @property
    def movable(self) -> list[DealtPlace]:
        """The places on it that nobody holds yet: they can be given elsewhere as well."""
        return [place for place in self.given if not place.name]


def size_of(claimant: Claimant) -> Size:
    """What a place of this claimant takes; claimants of one size find room on the same nodes."""
    return id(claimant.eligible), claimant.each


class PartNodes:
    """All nodes, and the changes to them.

    Rooms change often and are asked for often: each size has a heap, to which a node is added with each change of
    its room, and whose entries are dropped when they come up and are not true any more.

    Args:
        nodes: all of them.
        claimants: whose places are dealt.
        held: of each claimant the places that it holds; it keeps the last ones first.

    Attributes:
        given: to each claimant, by its row.
        gains: how often room has come back.
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
        """The node with the smallest room in which a place of the claimant's fits, but for one."""
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
        for entry in passed[:1]:
            heapq.heappush(heap, entry)
        return found

    def save(self) -> int:
        """Where things stand."""
        return len(self._undo)

    def restore(self, saved: int) -> None:
        """Back to where things stood."""
        self.gains += len(self._undo) > saved
        while len(self._undo) > saved:
            self._undo.pop()()

    def keep_place(self, row: int) -> bool:
        """Give a claimant the last of the places that it holds, unless their room has been given to others."""
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
        """A new place, where there is room for it; None: all of the node."""
        place = DealtPlace("", row, node.room if each is None else each, node)
        self._remember(node, place)
        self.given[row].append(place)
        self._lay(place, node, each)

    def evict(self, node: PartNode) -> None:
        """The first of the places that are held on it leaves."""
        self.gains += 1
        self._remember(node, node.held[0])
        self._set_room(node, node.room + node.held.pop(0).amount)

    def lift(self, place: DealtPlace) -> None:
        """A place that nobody holds yet leaves its node, to be put on another before anything else is given."""
        node = place.node
        self._remember(node, place)
        node.given.remove(place)
        self._set_room(node, node.room + place.amount)

    def put(self, place: DealtPlace, node: PartNode, each: Amount | None) -> None:
        """A place that was lifted goes to a node on which there is room for it; None: it takes all of that."""
        self._remember(node, place)
        place.node, place.amount = node, node.room if each is None else each
        self._lay(place, node, each)

    def _lay(self, place: DealtPlace, node: PartNode, each: Amount | None) -> None:
        left = Amount() if each is None else left_of(node.room, each)
        assert left is not None
        node.given.append(place)
        self._set_room(node, left)

    def _remember(self, node: PartNode, place: DealtPlace) -> None:
        """Before a change of a place on a node: how to undo it."""
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
