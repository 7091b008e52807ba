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
different sizes that holds within the limit of work of 5 (``part_packing.py``), which small machines do not reach.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Mapping, Sequence
from math import inf

from freetrain.core.amounts import Amount, left_of, times_in
from freetrain.core.place import Place, new_place, node_of, room_of
from freetrain.lending.rooms import Rooms
from freetrain.lending.sharing.claims import Claimant, Deal, keep
from freetrain.lending.sharing.part_nodes import DealtPlace, PartNode, PartNodes, Size, size_of
from freetrain.lending.sharing.part_packing import PartPacking


class PartStock:
    """All nodes, with what is left of them; places held by a trainer of no claimant stay where they are."""

    def __init__(self, places: Sequence[Place], claimants: Sequence[Claimant], rooms: Rooms) -> None:
        self._claimants = claimants
        self._rooms = rooms
        self._started_s = {part.place: part.started_s for room in rooms.values() for part in room.lent}
        by_name = _nodes_of(places, rooms)
        held = self._held_places(places, by_name)
        self._held = [self._in_order(row, held[row], by_name) for row in range(len(claimants))]
        nodes = list(by_name.values())
        self._capacity = {node.name: sum((place.amount for place in node.held), node.room) for node in nodes}
        self._nodes = PartNodes(nodes, claimants, self._held)
        self._packing = PartPacking(self._nodes, claimants)
        self._hopeless: dict[Size, int] = {}
        self._most: dict[Size, int] = {}
        self.nodes = float(len(nodes))

    def _held_places(self, places: Sequence[Place], nodes: Mapping[str, PartNode]) -> Mapping[int, list[Place]]:
        """Claimant → the places that its trainers hold; nodes with others count as used by the site."""
        of_trainer = {want.trainer: row for row, claimant in enumerate(self._claimants) for want in claimant.wants}
        held: defaultdict[int, list[Place]] = defaultdict(list)
        settled = {name for claimant in self._claimants for name in claimant.settled}
        for place in places:
            if place.holder is not None and place.holder in of_trainer and place.name not in settled:
                held[of_trainer[place.holder]].append(place)
            elif place.holder is not None:
                nodes[place.node].used_by_site = True
        return held

    def _in_order(self, row: int, held: Sequence[Place], nodes: Mapping[str, PartNode]) -> list[DealtPlace]:
        """The places that a claimant holds; it keeps the last ones first."""
        # Places that stay long are last, among equals those whose tasks have run long: these would lose that time.
        claimant, started_s = self._claimants[row], self._started_s
        by_life = sorted(held, key=lambda place: (-(place.until_s or inf), started_s.get(place.name, inf)))
        sizes = Counter(place.holder for place in held)
        found = []
        for name in keep(by_life, 0, claimant.wants, sizes)[1]:
            node = nodes[node_of(name)]
            all_of_it = self._rooms[node.name].total if node.name in self._rooms else Amount()
            place = DealtPlace(name, row, all_of_it if claimant.each is None else claimant.each, node)
            node.held.append(place)
            found.append(place)
        return found

    def most(self, row: int) -> int:
        """How many places it would have room for if it were alone."""
        claimant = self._claimants[row]
        size = size_of(claimant)
        if size not in self._most:
            may_use = (node for node in self._nodes.list if node.name in claimant.eligible)
            self._most[size] = sum(self._most_on(node, claimant.each) for node in may_use)
        return self._most[size]

    def _most_on(self, node: PartNode, each: Amount | None) -> int:
        return int(not node.used_by_site) if each is None else times_in(self._capacity[node.name], each)

    def held(self, row: int) -> int:
        """How many places its trainers hold."""
        return len(self._held[row])

    def kept(self, row: int) -> int:
        """How many of these it keeps: those given again, and those on nodes on which it was given others."""
        on_nodes = Counter(place.node for place in self._nodes.given[row])
        held_on = Counter(place.node for place in self._held[row])
        return sum(min(count, on_nodes[node]) for node, count in held_on.items())

    def free(self, row: int) -> int:
        """0: it is not known without trying."""
        return 0

    def save(self) -> int:
        """The present state, for :meth:`restore`."""
        return self._nodes.save()

    def restore(self, saved: int) -> None:
        """Undo all that was done since the state was saved."""
        self._nodes.restore(saved)

    def take(self, row: int) -> bool:
        """Give a claimant one more place; False: there is no room for it."""
        if self._nodes.keep_place(row):
            return True
        size = size_of(self._claimants[row])
        # A size that found no room finds none until room has come back; without this every refusal searches again.
        if self._hopeless.get(size) == self._nodes.gains:
            return False
        node = (
            self._nodes.first_taking(self._claimants[row])
            or self._take_back(row)
            or self._make_way(row)
            or self._packing.node_for(row)
        )
        if node is None:
            self._hopeless[size] = self._nodes.gains
            return False
        self._nodes.give(row, node, self._claimants[row].each)
        return True

    def _take_back(self, row: int) -> PartNode | None:
        """A node from which held places leave that their holders have not been given again: as few as possible."""
        best: tuple[PartNode, int] | None = None
        for node in self._nodes.list:
            if node.held and node.name in self._claimants[row].eligible:
                count = self._too_many(node, row)
                if count and (best is None or count < best[1]):
                    best = node, count
                    if count == 1:
                        break
        if best is None:
            return None
        node, count = best
        for _ in range(count):
            self._nodes.evict(node)
        return node

    def _too_many(self, node: PartNode, row: int) -> int:
        """How many held places have to leave the node, the first ones first; 0: all of them are not enough."""
        each, room = self._claimants[row].each, node.room
        if each is None:
            return 0 if node.used_by_site or node.given else len(node.held)
        for count, place in enumerate(node.held, 1):
            room = room + place.amount
            if left_of(room, each) is not None:
                return count
        return 0

    def _make_way(self, row: int) -> PartNode | None:
        """A node on which the claimant's place fits once places that are not held yet have moved to others."""
        eligible, each = self._claimants[row].eligible, self._claimants[row].each
        if each is None:
            return None
        may_use = (node for node in self._nodes.list if node.given and node.name in eligible)
        return next((node for node in may_use if self._is_cleared(node, each)), None)

    def _is_cleared(self, node: PartNode, each: Amount) -> bool:
        """Move a node's places to others until there is room; False: that is not possible, and none has moved."""
        movable = [place for place in node.movable if self._claimants[place.row].each is not None]
        if left_of(sum((place.amount for place in movable), node.room), each) is None:
            return False
        before = self._nodes.save()
        for place in movable:
            other = self._nodes.first_taking(self._claimants[place.row], but=node)
            if other is not None:
                self._nodes.lift(place)
                self._nodes.put(place, other, place.amount)
                if node.takes(each):
                    return True
        self._nodes.restore(before)
        return False

    def named(self) -> Deal:
        """Which places the claimants got."""
        parts: dict[Hashable, tuple[str, ...]] = {}
        new: list[Place] = []
        gains: dict[str, Hashable] = {}
        all_held = [place for held in self._held for place in held]
        given_again = {place.name for given in self._nodes.given for place in given}
        taken: defaultdict[tuple[PartNode, int], list[str]] = defaultdict(list)
        for place in all_held:
            if place.name not in given_again:
                taken[place.node, place.row].append(place.name)
        for row, claimant in enumerate(self._claimants):
            for place in self._nodes.given[row]:
                node = place.node
                # A new place on a node where one of its own was to leave: it keeps that one, so that its task does
                # not begin again.
                if not place.name and taken[node, row]:
                    place.name = taken[node, row].pop()
                elif not place.name:
                    place.name = node.name if claimant.each is None else new_place(node.name, len(new) + 1)
                    new.append(Place(place.name, node.until_s))
                    gains[node.name] = claimant.key
            parts[claimant.key] = tuple(place.name for place in self._nodes.given[row])
        kept = {name for names in parts.values() for name in names}
        leaving = {place.name: gains.get(place.node.name) for place in all_held if place.name not in kept}
        return Deal(parts, leaving, tuple(new))


def _nodes_of(places: Sequence[Place], rooms: Rooms) -> dict[str, PartNode]:
    """Name → node, with what of it is free to be lent."""
    is_offered = {place.name for place in places}
    nodes: dict[str, PartNode] = {}
    for place in places:
        name = place.node
        if name not in nodes:
            room = rooms.get(name)
            free = room.free if room is not None and room_of(name) in is_offered else Amount()
            nodes[name] = PartNode(name, place.until_s, free, room is None or room.used_by_site)
        # New places end when the node is first wanted; what is lent already may stay beside that job for longer.
        until_s = min(place.until_s or inf, nodes[name].until_s or inf)
        nodes[name].until_s = until_s if until_s < inf else None
    return nodes
