"""Parts of nodes to be dealt: places of different sizes beside each other, and beside the site's own jobs.

A claimant's next place is found in this order:

1. A place that its trainers hold.
2. A part of the node of which it leaves least: GPUs count first, then CPUs, then how long the node stays (best
   fit).
3. A part of a node that other claimants' held places leave, which these have not been given again; as few as
   possible.
4. A part of a node from which places move to other nodes; they were given in this deal and are not held yet.
5. A part of a node that has room once all places of 4 are packed again, and held places leave as in 3.

So a claimant is refused a place only if there is no room for it. Places of equal size need 2 alone. For places of
different sizes that holds within the limit of work of 5 (``bin_packing.py``), which small machines do not reach.

Each change of a node can be undone, because dealing tries steps and takes them back if they do not fit.
"""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf

from freetrain.core.amounts import Amount, left_of, times_in
from freetrain.core.grouping import grouped
from freetrain.core.place import Place, new_place, room_of
from freetrain.lending.rooms import Rooms
from freetrain.lending.sharing.bin_packing import Bin, pack
from freetrain.lending.sharing.claims import Claimant, Deal, PlaceShape, keep

RoomOrder = tuple[int, int, float, int]
"""The room that is used first: GPUs and CPUs that are left, how long the node stays, its number."""


# Compared by identity: two places of one shape on one node are two places.
@dataclass(slots=True, eq=False)
class DealtPlace:
    """A place that a claimant holds, or has been given.

    Attributes:
        name: its name at this look; empty: it was given in this deal and is not held yet.
    """

    name: str
    row: int
    shape: PlaceShape
    amount: Amount
    node: PartNode


@dataclass(slots=True, eq=False)
class PartNode:
    """A node, with the places on it.

    Attributes:
        until_s: time at which it will be wanted, UTC epoch seconds; inf: unknown.
        used_by_site: whether one of the site's jobs has part of it.
        held: places on it that their holders have not been given again; the first ones leave first.
        given: places on it that were given in this deal.
    """

    name: str
    number: int
    until_s: float
    room: Amount
    used_by_site: bool
    held: list[DealtPlace] = field(default_factory=list)
    given: list[DealtPlace] = field(default_factory=list)

    def takes(self, shape: PlaceShape) -> bool:
        """Whether there is room for a place; one that takes all of the node needs it empty."""
        if self.name not in shape.eligible:
            return False
        if shape.each is None:
            return not (self.used_by_site or self.held or self.given)
        return left_of(self.room, shape.each) is not None

    def leaving_for(self, shape: PlaceShape) -> int:
        """Number of held places that have to leave for a place, first ones first; 0: even all are not enough."""
        if self.name not in shape.eligible:
            return 0
        if shape.each is None:
            return 0 if self.used_by_site or self.given else len(self.held)
        room = self.room
        for count, place in enumerate(self.held, 1):
            room = room + place.amount
            if left_of(room, shape.each) is not None:
                return count
        return 0

    @property
    def order(self) -> RoomOrder:
        """The sort key of nodes: the smallest room is used first (best fit)."""
        return self.room.gpus, self.room.cpus, -self.until_s, self.number

    @property
    def movable(self) -> list[DealtPlace]:
        """The places on it that are not held yet, so that they can lie on any other node."""
        return [place for place in self.given if not place.name]


class PartNodes:
    """All nodes, and the changes to them.

    Each shape of places has a heap of the nodes with room for it. A change of a node's room pushes a new entry;
    old entries stay and are dropped when they come up, which is cheaper than to remove them.

    Of each claimant's held places it keeps the last ones first.

    Attributes:
        given: places given to each claimant, by its row.
        gains: number of times that room has come back, so that shapes that were refused may fit again.
    """

    def __init__(
        self, nodes: Sequence[PartNode], shapes: Sequence[PlaceShape], held: Sequence[Sequence[DealtPlace]]
    ) -> None:
        self.list = nodes
        self.given: list[list[DealtPlace]] = [[] for _ in shapes]
        self.gains = 0
        self._shapes = shapes
        self._held = held
        self._not_kept = [len(places) for places in held]
        self._undo: list[Callable[[], None]] = []
        self._heaps = {shape: [(node.order, node) for node in nodes if node.takes(shape)] for shape in set(shapes)}
        for heap in self._heaps.values():
            heapq.heapify(heap)

    def first_taking(self, shape: PlaceShape, but: PartNode | None = None) -> PartNode | None:
        """The node with the smallest room for a place, other than ``but``."""
        heap = self._heaps[shape]
        passed, found = [], None
        while heap and found is None:
            order, node = heap[0]
            is_true = order == node.order and node.takes(shape)
            if is_true and node is not but:
                found = node
            else:
                heapq.heappop(heap)
                passed += [(order, node)] if is_true else []
        # Equal entries of one node may have come up several times; one of them is enough.
        for entry in passed[:1]:
            heapq.heappush(heap, entry)
        return found

    def mark(self) -> int:
        """The present state, for :meth:`undo_to`."""
        return len(self._undo)

    def undo_to(self, mark: int) -> None:
        """Undo all that was done since the state was marked."""
        self.gains += len(self._undo) > mark
        while len(self._undo) > mark:
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

    def give(self, row: int, node: PartNode) -> None:
        """Give a claimant a new place on a node that has room for it."""
        place = DealtPlace("", row, self._shapes[row], Amount(), node)
        self.put(place, node)
        self.given[row].append(place)

    def make_room(self, node: PartNode, shape: PlaceShape) -> bool:
        """Let held places leave a node until it has room for a place; False: all of them are not enough."""
        while node.held and not node.takes(shape):
            self.gains += 1
            self._remember(node, node.held[0])
            self._set_room(node, node.room + node.held.pop(0).amount)
        return node.takes(shape)

    def lift(self, place: DealtPlace) -> None:
        """Take a place that is not held yet off its node; it must be put on another before any place is given."""
        node = place.node
        self._remember(node, place)
        node.given.remove(place)
        self._set_room(node, node.room + place.amount)

    def put(self, place: DealtPlace, node: PartNode) -> None:
        """Put a place on a node that has room for it."""
        self._remember(node, place)
        place.node, place.amount = node, node.room if place.shape.each is None else place.shape.each
        left = left_of(node.room, place.amount)
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
        entry = (node.order, node)
        for shape, heap in self._heaps.items():
            if node.takes(shape):
                heapq.heappush(heap, entry)


# Ways to fill a node that are tried for one place, and for all places of a deal. Looking at a node for a shape
# counts as one, so that the largest machines are not packed again.
_AT_ONCE, _IN_ALL = 2000, 10_000


class PartStock:
    """All nodes, with what is left of them; places held by a trainer of no claimant stay where they are."""

    def __init__(
        self, places: Sequence[Place], claimants: Sequence[Claimant], held: Mapping[str, int], rooms: Rooms
    ) -> None:
        self._claimants = claimants
        by_name = _nodes_of(places, rooms)
        self._held = self._held_places(places, held, by_name, rooms)
        nodes = list(by_name.values())
        most = _most_of(nodes, claimants)
        self.most: Sequence[int] = [most[claimant.shape] for claimant in claimants]
        self._nodes = PartNodes(nodes, [claimant.shape for claimant in claimants], self._held)
        self._hopeless: dict[PlaceShape, int] = {}
        self._work_left = _IN_ALL
        self.nodes = float(len(nodes))

    def _held_places(
        self, places: Sequence[Place], held_by: Mapping[str, int], nodes: Mapping[str, PartNode], rooms: Rooms
    ) -> Sequence[Sequence[DealtPlace]]:
        """Places that each claimant holds, in the order in which it gives them up; others count as the site's."""
        started_s = {part.place: part.started_s for room in rooms.values() for part in room.lent}
        lent = [place for place in places if place.holder is not None]
        # Places that stay long are last, among equals those whose tasks have run long: these would lose that time.
        lent.sort(key=lambda place: (-(place.until_s or inf), started_s.get(place.name, inf)))
        held: defaultdict[int, list[Place]] = defaultdict(list)
        for place in lent:
            if place.name in held_by:
                held[held_by[place.name]].append(place)
            else:
                nodes[place.node].used_by_site = True
        found: list[list[DealtPlace]] = [[] for _ in self._claimants]
        for row, claimant in enumerate(self._claimants):
            sizes = Counter(place.holder for place in held[row])
            for place in keep(held[row], 0, claimant.wants, sizes)[1]:
                node = nodes[place.node]
                all_of_it = rooms[node.name].total if node.name in rooms else Amount()
                amount = all_of_it if claimant.each is None else claimant.each
                found[row].append(DealtPlace(place.name, row, claimant.shape, amount, node))
                node.held.append(found[row][-1])
        return found

    def take(self, row: int, count: int) -> bool:
        """Give a claimant so many more places, or none; False: there is no room for all of them."""
        before = self._nodes.mark()
        if all(self._take(row) for _ in range(count)):
            return True
        if count > 1:
            self._nodes.undo_to(before)
        return False

    def _take(self, row: int) -> bool:
        if self._nodes.keep_place(row):
            return True
        shape = self._claimants[row].shape
        # A shape that found no room finds none until room has come back; else every refusal would search again.
        if self._hopeless.get(shape) == self._nodes.gains:
            return False
        node = (
            self._nodes.first_taking(shape)
            or self._take_back(shape)
            or self._make_way(shape)
            or self._pack_again(shape)
        )
        if node is None:
            self._hopeless[shape] = self._nodes.gains
            return False
        self._nodes.give(row, node)
        return True

    def _take_back(self, shape: PlaceShape) -> PartNode | None:
        """A node from which held places leave that their holders have not been given again: as few as possible."""
        best, lowest = None, inf
        for node in self._nodes.list:
            if node.held and 0 < (count := node.leaving_for(shape)) < lowest:
                best, lowest = node, count
                if count == 1:
                    break
        if best is not None:
            self._nodes.make_room(best, shape)
        return best

    def _make_way(self, shape: PlaceShape) -> PartNode | None:
        """A node on which a place fits once places that are not held yet have moved to others."""
        if shape.each is None:
            return None
        may_use = (node for node in self._nodes.list if node.given and node.name in shape.eligible)
        return next((node for node in may_use if self._is_cleared(node, shape, shape.each)), None)

    def _is_cleared(self, node: PartNode, shape: PlaceShape, each: Amount) -> bool:
        """Move a node's places to others until there is room; False: that is not possible, and none has moved."""
        movable = [place for place in node.movable if place.shape.each is not None]
        if left_of(sum((place.amount for place in movable), node.room), each) is None:
            return False
        before = self._nodes.mark()
        for place in movable:
            other = self._nodes.first_taking(place.shape, but=node)
            if other is not None:
                self._nodes.lift(place)
                self._nodes.put(place, other)
                if node.takes(shape):
                    return True
        self._nodes.undo_to(before)
        return False

    def _pack_again(self, shape: PlaceShape) -> PartNode | None:
        """A node on which one more place fits once all that are not held yet are packed again.

        Held places that have not been given again leave only if it is not possible without; the others stay.
        """
        movable = [place for node in self._nodes.list for place in node.movable] if self._work_left > 0 else []
        if not movable:
            return None
        wanted = Counter(place.shape for place in movable)
        wanted[shape] += 1
        some_are_held = any(node.held for node in self._nodes.list)
        return self._packed(shape, wanted, False) or (self._packed(shape, wanted, True) if some_are_held else None)

    def _packed(self, own: PlaceShape, wanted: Counter[PlaceShape], with_held: bool) -> PartNode | None:
        """The node found by packing, with or without the room of held places that have not been given again."""
        shapes = list(wanted)
        self._work_left -= len(self._nodes.list) * len(shapes)
        if self._work_left <= 0:
            return None
        bins = {node: _bin_of(node, shapes, with_held) for node in self._nodes.list}
        used = [node for node, bin_ in bins.items() if node.movable or _fits_any(bin_, shapes)]
        each, most_ways = [shape.each for shape in shapes], min(_AT_ONCE, self._work_left)
        found, tried = pack(tuple(wanted.values()), each, [bins[node] for node in used], most_ways)
        self._work_left -= tried
        if found is None:
            return None
        on_node = {
            node: [shape for shape, count in zip(shapes, counts, strict=True) for _ in range(count)]
            for node, counts in zip(used, found, strict=True)
        }
        return self._arranged(own, on_node)

    def _arranged(self, own: PlaceShape, on_node: Mapping[PartNode, list[PlaceShape]]) -> PartNode | None:
        """Move the places to where the packing has them, and return the node that has room for the new one."""
        before = self._nodes.mark()
        changed = {
            node: shapes
            for node, shapes in on_node.items()
            if Counter(shapes) != Counter(place.shape for place in node.movable)
        }
        moving = [place for node in changed for place in node.movable]
        lifted = grouped((place.shape, place) for place in moving)
        for place in moving:
            self._nodes.lift(place)
        left_out = next(node for node in reversed(changed) if own in changed[node])
        changed[left_out].remove(own)
        for node, shapes in (*changed.items(), (left_out, [own])):
            for shape in shapes:
                # Vectors do not know on which type of GPU a place without a type lies, so a packing may fail here.
                if not self._nodes.make_room(node, shape):
                    self._nodes.undo_to(before)
                    return None
                if lifted[shape]:
                    self._nodes.put(lifted[shape].pop(), node)
        return left_out

    def named(self) -> Deal:
        """The deal, with the names of the places that the claimants got."""
        parts: dict[Hashable, tuple[str, ...]] = {}
        new: dict[Place, Amount] = {}
        gains: dict[str, Hashable] = {}
        all_held = [place for held in self._held for place in held]
        given_again = {place.name for given in self._nodes.given for place in given}
        not_given = (place for place in all_held if place.name not in given_again)
        taken = grouped(((place.node, place.row), place.name) for place in not_given)
        for row, claimant in enumerate(self._claimants):
            for place in self._nodes.given[row]:
                node = place.node
                # A new place on a node where one of its own was to leave: it keeps that one, so that its task does
                # not begin again.
                if not place.name and taken[node, row]:
                    place.name = taken[node, row].pop()
                elif not place.name:
                    place.name = node.name if claimant.each is None else new_place(node.name, len(new) + 1)
                    new[Place(place.name, node.until_s if node.until_s < inf else None)] = place.amount
                    gains[node.name] = claimant.key
            parts[claimant.key] = tuple(place.name for place in self._nodes.given[row])
        kept = {name for names in parts.values() for name in names}
        leaving = {place.name: gains.get(place.node.name) for place in all_held if place.name not in kept}
        return Deal(parts, leaving, new)


def _nodes_of(places: Sequence[Place], rooms: Rooms) -> dict[str, PartNode]:
    is_offered = {place.name for place in places}
    nodes: dict[str, PartNode] = {}
    for place in places:
        name = place.node
        if name not in nodes:
            room = rooms.get(name)
            free = room.free if room is not None and room_of(name) in is_offered else Amount()
            nodes[name] = PartNode(name, len(nodes), inf, free, room is None or room.used_by_site)
        # New places end when the node is first wanted; what is lent already may stay beside that job for longer.
        nodes[name].until_s = min(place.until_s or inf, nodes[name].until_s)
    return nodes


def _most_of(nodes: Sequence[PartNode], claimants: Sequence[Claimant]) -> Mapping[PlaceShape, int]:
    """PlaceShape → how many such places have room if no claimant holds any."""
    room = {node: sum((place.amount for place in node.held), node.room) for node in nodes}
    most = {}
    for shape in {claimant.shape for claimant in claimants}:
        may_use = (node for node in nodes if node.name in shape.eligible)
        most[shape] = sum(
            int(not node.used_by_site) if shape.each is None else times_in(room[node], shape.each)
            for node in may_use
        )
    return most


def _bin_of(node: PartNode, shapes: Sequence[PlaceShape], with_held: bool) -> Bin:
    """A node to be packed again; it has to be emptied for a place that takes all of it."""
    leaving = (*node.movable, *(node.held if with_held else ()))
    may_be_cleared = not node.used_by_site and len(leaving) == len(node.held) + len(node.given)
    return Bin(
        sum((place.amount for place in leaving), node.room),
        tuple(node.name in shape.eligible and (shape.each is not None or may_be_cleared) for shape in shapes),
    )


def _fits_any(bin_: Bin, shapes: Sequence[PlaceShape]) -> bool:
    return any(
        may and (shape.each is None or left_of(bin_.room, shape.each) is not None)
        for may, shape in zip(bin_.takes, shapes, strict=True)
    )
