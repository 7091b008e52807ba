"""Parts of nodes to be dealt: places of different sizes beside each other, and beside the site's own jobs.

A claimant's next place is found in this order:

1. One that its trainers hold.
2. A part of the node that it leaves least of: GPUs count first, then CPUs, then how long the node stays.
3. A part of a node from which places leave that others hold and have not been given again; as few as possible.
4. A part of a node from which places move to other nodes that somebody has been given and does not hold yet.
5. A part of a node on which there is room once all such places are packed again, and others' as in 3 leave.

So nobody goes without a place for which there would be room: of equal size as 2 deals them, of different sizes as
far as the work lasts that may be spent on 5 (``part_repacking.py``), which small machines do not exhaust.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Mapping, Sequence
from math import inf

from freetrain.core.amounts import Amount, left_of, times_in
from freetrain.core.classes import Offer
from freetrain.core.fragment import new_place, node_of, room_of
from freetrain.lending.sharing.claims import Claimant, Deal
from freetrain.lending.sharing.keeping import keep
from freetrain.lending.sharing.part_moves import OnNode, PartMoves
from freetrain.lending.sharing.part_nodes import Divided, PartNode, Place
from freetrain.lending.sharing.part_repacking import PartRepacking
from freetrain.lending.sharing.part_rooms import PartRooms, Size, size_of


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
        self._divided = rooms
        self._since_s = {one.place: one.started_s for room in rooms.values() for one in room.lent}
        self._nodes = _nodes_of(places, rooms)
        held = self._held_places(places)
        self._list = list(self._nodes.values())
        self._held = [len(held[row]) for row in range(len(claimants))]
        self._kept = [self._in_order(row, held[row]) for row in range(len(claimants))]
        self._all_held = [(node, place) for kept in self._kept for node, place in kept]
        self._held_on = [Counter(node.name for node, _ in kept) for kept in self._kept]
        self._capacity = {node.name: sum((place.amount for place in node.held), node.room) for node in self._list}
        self._rooms = PartRooms(self._list, claimants)
        self._moves = PartMoves(self._rooms, len(claimants))
        self._repacking = PartRepacking(self._list, claimants, self._moves)
        self._in_vain: dict[Size, int] = {}
        self._most: dict[Size, int] = {}
        self.nodes = float(len(self._list))

    def _held_places(self, places: Sequence[Offer]) -> Mapping[int, list[Offer]]:
        """Claimant → the places that its trainers hold; where others stay the site counts as there."""
        of_trainer = {want.trainer: row for row, one in enumerate(self._claimants) for want in one.wants}
        held: defaultdict[int, list[Offer]] = defaultdict(list)
        settled = {name for claimant in self._claimants for name in claimant.settled}
        for place in places:
            if place.held_by is not None and place.held_by in of_trainer and place.name not in settled:
                held[of_trainer[place.held_by]].append(place)
            elif place.held_by is not None:
                self._nodes[node_of(place.name)].used_by_site = True
        return held

    def _in_order(self, row: int, held: Sequence[Offer]) -> list[OnNode]:
        """What a claimant holds, such that it keeps the last ones first.

        What stays long goes last, and of equals what has run long: a task that begins again loses that time.
        """
        one = self._claimants[row]
        since_s = self._since_s
        by_life = sorted(held, key=lambda place: (-(place.free_until_s or inf), since_s.get(place.name, inf)))
        sizes = Counter(place.held_by for place in held)
        found = []
        for name in keep(by_life, 0, one.wants, sizes)[1]:
            node = self._nodes[node_of(name)]
            all_of_it = self._divided[node.name].total if node.name in self._divided else Amount()
            place = Place(name, row, all_of_it if one.each is None else one.each)
            node.held.append(place)
            found.append((node, place))
        return found

    def most(self, row: int) -> int:
        """For how many places there would be room if nobody else held any."""
        one = self._claimants[row]
        size = size_of(one)
        if size not in self._most:
            may_use = (node for node in self._list if node.name in one.eligible)
            self._most[size] = sum(self._most_on(node, one.each) for node in may_use)
        return self._most[size]

    def _most_on(self, node: PartNode, each: Amount | None) -> int:
        return int(not node.used_by_site) if each is None else times_in(self._capacity[node.name], each)

    def held(self, row: int) -> int:
        """How many places its trainers hold."""
        return self._held[row]

    def kept(self, row: int) -> int:
        """How many of these it has been given again, or others on the same nodes, which is the same."""
        on_nodes = Counter(node.name for node, _ in self._moves.given[row])
        return sum(min(count, on_nodes[name]) for name, count in self._held_on[row].items())

    def free(self, row: int) -> int:
        """Not known without trying."""
        return 0

    def save(self) -> int:
        """Where things stand."""
        return self._moves.save()

    def restore(self, saved: int) -> None:
        """Back to where things stood."""
        self._moves.restore(saved)

    def take(self, row: int) -> bool:
        """Give a claimant one more place; False: none was found.

        Who has found no room finds none until some has come back.
        """
        if self._moves.keep_one(row, self._kept[row]):
            return True
        size = size_of(self._claimants[row])
        if self._in_vain.get(size) == self._moves.gains:
            return False
        node = (
            self._rooms.first_taking(self._claimants[row])
            or self._take_back(row)
            or self._make_way(row)
            or self._repacking.node_for(row)
        )
        if node is None:
            self._in_vain[size] = self._moves.gains
            return False
        self._moves.give(row, node, self._claimants[row].each)
        return True

    def _take_back(self, row: int) -> PartNode | None:
        """A node from which places leave that others hold and have not been given again."""
        best: tuple[PartNode, int] | None = None
        for node in self._list:
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
            self._moves.evict(node)
        return node

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

    def _make_way(self, row: int) -> PartNode | None:
        """A node from which places move that nobody holds yet, if the claimant's fits then."""
        eligible, each = self._claimants[row].eligible, self._claimants[row].each
        if each is None:
            return None
        may_use = (node for node in self._list if node.given and node.name in eligible)
        return next((node for node in may_use if self._is_cleared(node, each)), None)

    def _is_cleared(self, node: PartNode, each: Amount) -> bool:
        """Whether enough of a node's places have moved; none has where there are not enough that can."""
        movable = [place for place in node.given if not place.name and self._claimants[place.row].each is not None]
        if left_of(sum((place.amount for place in movable), node.room), each) is None:
            return False
        before = self._moves.save()
        for place in movable:
            other = self._rooms.first_taking(self._claimants[place.row], but=node)
            if other is not None:
                self._moves.lift(place, node)
                self._moves.put(place, other, place.amount)
                if node.takes(each):
                    return True
        self._moves.restore(before)
        return False

    def named(self) -> Deal:
        """Which places they are.

        Who is given a place on a node where one of theirs was to leave keeps that: it need not begin again.
        """
        keys = [claimant.key for claimant in self._claimants]
        parts: dict[Hashable, tuple[str, ...]] = {}
        new: list[Offer] = []
        gains: dict[str, Hashable] = {}
        given_again = {place.name for given in self._moves.given for _, place in given}
        taken: defaultdict[tuple[str, int], list[str]] = defaultdict(list)
        for node, place in self._all_held:
            if place.name not in given_again:
                taken[node.name, place.row].append(place.name)
        for row, key in enumerate(keys):
            names = []
            for node, place in self._moves.given[row]:
                if not place.name and taken[node.name, row]:
                    place.name = taken[node.name, row].pop()
                elif not place.name:
                    is_whole = self._claimants[row].each is None
                    place.name = node.name if is_whole else new_place(node.name, len(new) + 1)
                    new.append(Offer(place.name, node.until_s))
                    gains[node.name] = key
                names.append(place.name)
            parts[key] = tuple(names)
        kept = {name for names in parts.values() for name in names}
        leaving = {place.name: gains.get(node.name) for node, place in self._all_held if place.name not in kept}
        return Deal(parts, leaving, tuple(new))


def _nodes_of(places: Sequence[Offer], rooms: Mapping[str, Divided]) -> dict[str, PartNode]:
    """The nodes by name, with what may be lent of each that nobody has."""
    is_offered = {place.name for place in places}
    nodes: dict[str, PartNode] = {}
    for place in places:
        name = node_of(place.name)
        if name not in nodes:
            room = rooms.get(name)
            free = room.free if room is not None and room_of(name) in is_offered else Amount()
            nodes[name] = PartNode(name, place.free_until_s, free, room is None or room.used_by_site)
        # What is lent again ends before the first who wants any of the node; what is lent may stay beside them.
        until_s = min(place.free_until_s or inf, nodes[name].until_s or inf)
        nodes[name].until_s = until_s if until_s < inf else None
    return nodes
