"""Parts of nodes to be dealt: places of different sizes beside each other, and beside the site's own jobs.

A claimant's next place is found in this order:

1. One that its trainers hold.
2. A part of the node that it leaves least of: GPUs count first, then CPUs, then how long the node stays.
3. A part of a node from which places leave that others hold and have not been given again; as few as possible.
4. A part of a node from which places move to other nodes that somebody has been given and does not hold yet.

So places of equal size are dealt exactly. Of different sizes, 4 finds most of the room that 2 has spoilt, not all.
"""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from math import inf

from freetrain.core.amounts import Amount, left_of, times_in
from freetrain.core.classes import Offer
from freetrain.core.fragment import new_place, node_of, room_of
from freetrain.lending.sharing.claims import Claimant, Deal
from freetrain.lending.sharing.keeping import keep
from freetrain.lending.sharing.part_nodes import Divided, Order, PartNode, Place

_Size = tuple[int, Amount | None]
"""What a place takes of which nodes: the identity of the set of these, and how much; None: all of a node."""


class PartStock:
    """All nodes, with what is left of them.

    Args:
        places: all that are offered; those held by a trainer of no claimant stay where they are.
        claimants: who may get them.
        rooms: node → what is left of it.
    """

    def __init__(
        self, places: Sequence[Offer], claimants: Sequence[Claimant], rooms: Mapping[str, Divided]
    ) -> None:
        self._claimants = claimants
        self._of_trainer = {want.trainer: row for row, one in enumerate(claimants) for want in one.wants}
        self._nodes: dict[str, PartNode] = {}
        held: defaultdict[int, list[Offer]] = defaultdict(list)
        is_offered = {one.name for one in places}
        for one in places:
            name = node_of(one.name)
            if name not in self._nodes:
                room = rooms.get(name)
                free = room.free if room is not None and room_of(name) in is_offered else Amount()
                self._nodes[name] = PartNode(name, one.free_until_s, free, room is None or room.used_by_site)
            if one.held_by is not None and one.held_by in self._of_trainer:
                held[self._of_trainer[one.held_by]].append(one)
            elif one.held_by is not None:
                self._nodes[name].used_by_site = True
        self._list = list(self._nodes.values())
        self._number = {node.name: number for number, node in enumerate(self._list)}
        self._held = [len(held[row]) for row in range(len(claimants))]
        self._rooms = rooms
        self._kept = [self._in_order(row, held[row]) for row in range(len(claimants))]
        self._all_held = [(node, place) for kept in self._kept for node, place in kept]
        self._given: list[list[tuple[PartNode, Place]]] = [[] for _ in claimants]
        self._heaps: dict[_Size, list[tuple[Order, PartNode]]] = {}
        self._undo: list[Callable[[], None]] = []
        # How often room has come back; until then who has found no room finds none.
        self._gains = 0
        self._in_vain: dict[_Size, int] = {}
        self._capacity = {node.name: sum((place.amount for place in node.held), node.room) for node in self._list}
        self._most: dict[_Size, int] = {}
        self.nodes = float(len(self._list))
        self._by_size = [(id(one.eligible), one.each) for one in claimants]
        for own in claimants:
            if (id(own.eligible), own.each) not in self._heaps:
                may_use = [node for node in self._list if node.name in own.eligible and node.takes(own.each)]
                heap = [(node.order(self._number[node.name]), node) for node in may_use]
                heapq.heapify(heap)
                self._heaps[id(own.eligible), own.each] = heap
        self._eligible = {id(one.eligible): one.eligible for one in claimants}

    def _in_order(self, row: int, held: Sequence[Offer]) -> list[tuple[PartNode, Place]]:
        """What a claimant holds, such that it keeps the last ones first."""
        one = self._claimants[row]
        by_life = sorted(held, key=lambda place: -(place.free_until_s or inf))
        sizes = Counter(place.held_by for place in held)
        found = []
        for name in keep(by_life, 0, one.wants, sizes)[1]:
            node = self._nodes[node_of(name)]
            all_of_it = self._rooms[node.name].total if node.name in self._rooms else Amount()
            place = Place(name, row, all_of_it if one.each is None else one.each)
            node.held.append(place)
            found.append((node, place))
        return found

    def most(self, row: int) -> int:
        """For how many places there would be room if nobody else held any."""
        one, size = self._claimants[row], self._by_size[row]
        if size not in self._most:
            may_use = (node for node in self._list if node.name in one.eligible)
            self._most[size] = sum(self._most_on(node, one.each) for node in may_use)
        return self._most[size]

    def _most_on(self, node: PartNode, each: Amount | None) -> int:
        return int(not node.used_by_site) if each is None else times_in(self._capacity[node.name], each)

    def held(self, row: int) -> int:
        """How many places its trainers hold."""
        return self._held[row]

    def free(self, row: int) -> int:
        """Not known without trying."""
        return 0

    def save(self) -> int:
        """Where things stand."""
        return len(self._undo)

    def restore(self, saved: int) -> None:
        """Back to where things stood."""
        self._gains += len(self._undo) > saved
        while len(self._undo) > saved:
            self._undo.pop()()

    def take(self, row: int) -> bool:
        """Give a claimant one more place; False: none was found."""
        if self._keep_one(row):
            return True
        size = self._by_size[row]
        if self._in_vain.get(size) == self._gains:
            return False
        found = self._cut(row) or self._take_back(row) or self._make_way(row)
        if not found:
            self._in_vain[size] = self._gains
        return found

    def _keep_one(self, row: int) -> bool:
        kept = self._kept[row]
        while kept:
            node, place = kept.pop()
            stays = place in node.held  # others may have been given its room
            if stays:
                at = node.held.index(place)
                node.held.remove(place)
                node.given.append(place)
                self._given[row].append((node, place))

            def undo(node: PartNode = node, place: Place = place, at: int | None = at if stays else None) -> None:
                kept.append((node, place))
                if at is not None:
                    self._given[row].pop()
                    node.given.remove(place)
                    node.held.insert(at, place)

            self._undo.append(undo)
            if stays:
                return True
        return False

    def _cut(self, row: int) -> bool:
        node = self._first_taking(row)
        if node is not None:
            self._give(row, node)
        return node is not None

    def _first_taking(self, row: int, but: PartNode | None = None) -> PartNode | None:
        """The node with the smallest room in which a place of the claimant's fits, but for one."""
        each, heap = self._claimants[row].each, self._heaps[self._by_size[row]]
        passed, found = [], None
        while heap and found is None:
            order, node = heap[0]
            is_so = order == node.order(order[-1]) and node.takes(each)
            if is_so and node is not but:
                found = node
            else:
                heapq.heappop(heap)
                passed += [(order, node)] if is_so else []
        for entry in passed[:1]:
            heapq.heappush(heap, entry)
        return found

    def _give(self, row: int, node: PartNode) -> None:
        each, before = self._claimants[row].each, node.room
        place = Place("", row, node.room if each is None else each)
        left = Amount() if each is None else left_of(node.room, each)
        assert left is not None
        self._set_room(node, left)
        node.given.append(place)
        self._given[row].append((node, place))

        def undo() -> None:
            self._given[row].pop()
            node.given.remove(place)
            self._set_room(node, before)

        self._undo.append(undo)

    def _set_room(self, node: PartNode, room: Amount) -> None:
        node.room = room
        entry = (node.order(self._number[node.name]), node)
        for (eligible, each), heap in self._heaps.items():
            if node.name in self._eligible[eligible] and node.takes(each):
                heapq.heappush(heap, entry)

    def _take_back(self, row: int) -> bool:
        """Let places leave that others hold and have not been given again."""
        best: tuple[PartNode, int] | None = None
        for node in self._list:
            if node.held and node.name in self._claimants[row].eligible:
                count = self._too_many(node, row)
                if count and (best is None or count < best[1]):
                    best = node, count
                    if count == 1:
                        break
        if best is None:
            return False
        node, count = best
        for _ in range(count):
            self._evict(node)
        self._give(row, node)
        return True

    def _too_many(self, node: PartNode, row: int) -> int:
        """How many places that nobody was given again have to leave the node; 0: all are not enough."""
        each, room = self._claimants[row].each, node.room
        if each is None:
            return 0 if node.used_by_site or node.given else len(node.held)
        for count, place in enumerate(node.held, 1):
            room = room + place.amount
            if left_of(room, each) is not None:
                return count
        return 0

    def _evict(self, node: PartNode) -> None:
        self._gains += 1
        place, before = node.held.pop(0), node.room
        self._set_room(node, node.room + place.amount)

        def undo() -> None:
            node.held.insert(0, place)
            self._set_room(node, before)

        self._undo.append(undo)

    def _make_way(self, row: int) -> bool:
        """Let places that nobody holds yet move to other nodes, if the claimant's fits then."""
        each = self._claimants[row].each
        if each is None:
            return False
        for node in self._list:
            if node.given and node.name in self._claimants[row].eligible and self._is_cleared(node, each):
                self._give(row, node)
                return True
        return False

    def _is_cleared(self, node: PartNode, each: Amount) -> bool:
        """Whether enough of a node's places have moved; none has where there are not enough that can."""
        movable = [place for place in node.given if not place.name and self._claimants[place.row].each is not None]
        if left_of(sum((place.amount for place in movable), node.room), each) is None:
            return False
        before = self.save()
        for place in movable:
            other = self._first_taking(place.row, but=node)
            if other is not None:
                self._move(place, node, other)
                if node.takes(each):
                    return True
        self.restore(before)
        return False

    def _move(self, place: Place, node: PartNode, other: PartNode) -> None:
        left, rooms = left_of(other.room, place.amount), (node.room, other.room)
        assert left is not None
        at = next(number for number, one in enumerate(self._given[place.row]) if one[1] is place)
        self._given[place.row][at] = (other, place)
        node.given.remove(place)
        other.given.append(place)
        self._set_room(node, node.room + place.amount)
        self._set_room(other, left)

        def undo() -> None:
            self._given[place.row][at] = (node, place)
            other.given.remove(place)
            node.given.append(place)
            self._set_room(node, rooms[0])
            self._set_room(other, rooms[1])

        self._undo.append(undo)

    def named(self) -> Deal:
        """Which places they are."""
        keys = [one.key for one in self._claimants]
        parts: dict[Hashable, tuple[str, ...]] = {}
        new: list[Offer] = []
        gains: dict[str, Hashable] = {}
        for row, key in enumerate(keys):
            names = []
            for node, place in self._given[row]:
                if not place.name:
                    is_whole = self._claimants[row].each is None
                    place.name = node.name if is_whole else new_place(node.name, len(new) + 1)
                    new.append(Offer(place.name, node.until_s))
                    gains[node.name] = key
                names.append(place.name)
            parts[key] = tuple(names)
        kept = {name for names in parts.values() for name in names}
        leaving = {place.name: gains.get(node.name) for node, place in self._all_held if place.name not in kept}
        return Deal(parts, leaving, tuple(new))
