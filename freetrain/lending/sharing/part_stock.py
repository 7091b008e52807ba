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
different sizes that holds within the limit of work of 5 (:func:`pack`), which small machines do not reach.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import inf
from typing import NamedTuple

from freetrain.core.amounts import Amount, is_of, left_of, times_in
from freetrain.core.grouping import grouped
from freetrain.core.place import Place, new_place, node_of, room_of
from freetrain.lending.rooms import Rooms
from freetrain.lending.sharing.claims import Claimant, Deal, keep
from freetrain.lending.sharing.part_nodes import DealtPlace, PartNode, PartNodes, Size, size_of

Counts = tuple[int, ...]
"""How many places of each size."""

_Vector = tuple[int, ...]


class Bin(NamedTuple):
    """A node to be filled.

    Attributes:
        takes: for each size whether it may lie there; for sizes that take all of a node, whether it can be empty.
    """

    room: Amount
    takes: tuple[bool, ...]


@dataclass(slots=True)
class Work:
    """How many ways to fill a node may still be tried."""

    left: int


def pack(wanted: Counts, sizes: Sequence[Amount | None], bins: Sequence[Bin], work: Work) -> list[Counts] | None:
    """How many places of each size lie on each node, such that all are placed; None: no way was found.

    A place whose size is None takes all of its node, and lies there alone.
    """
    # Equal nodes side by side: what was a dead end on one is found at once on the next.
    order = sorted(range(len(bins)), key=lambda number: (bins[number].takes, str(bins[number].room)))
    found = _Search(sizes, [bins[number] for number in order], work).find(wanted)
    if found is None:
        return None
    by_number = dict(zip(order, found, strict=True))
    return [by_number[number] for number in range(len(bins))]


class _Search:
    """A depth-first search, over nodes in the order in which they are filled: equal ones follow each other.

    Vector bin packing is NP-hard: the search drops what sums of the remaining room exclude, remembers dead ends,
    and gives up at a limit of work.
    """

    def __init__(self, sizes: Sequence[Amount | None], bins: Sequence[Bin], work: Work) -> None:
        names = sorted({name for size in sizes if size is not None for name, _ in size.gres})
        self._each = [None if size is None else _taken(size, names) for size in sizes]
        self._rooms = [_vector(bin_.room, names) for bin_ in bins]
        self._takes = [bin_.takes for bin_ in bins]
        self._work = work
        self._hopeless: set[tuple[int, Counts]] = set()
        last = len(bins)
        fits = [self._fits_alone(number) for number in range(last)]
        self._fits_from = _sums_from(fits, len(sizes))
        self._room_from = _sums_from(self._rooms, 2 + len(names))

    def find(self, wanted: Counts) -> list[Counts] | None:
        """The first way that is found, depth first."""
        filled: list[Counts] = []
        # A stack of generators: recursion would be as deep as there are nodes, and Python's limit is 1000.
        ways = [self._ways(0, wanted)]
        left = [wanted]
        while any(left[-1]):
            way = next(ways[-1], None)
            if way is None:
                self._hopeless.add((len(filled), left[-1]))
                ways.pop()
                left.pop()
                if not ways:
                    return None
                filled.pop()
                continue
            filled.append(way)
            left.append(tuple(count - done for count, done in zip(left[-1], way, strict=True)))
            ways.append(self._ways(len(filled), left[-1]))
        nothing = (0,) * len(wanted)
        return [*filled, *[nothing] * (len(self._rooms) - len(filled))]

    def _ways(self, number: int, left: Counts) -> Iterator[Counts]:
        """How a node may be filled with what is left; none if that cannot fit on this node and those after it."""
        if (number, left) in self._hopeless or not self._may_fit(number, left):
            return
        takes = [count if may else 0 for count, may in zip(left, self._takes[number], strict=True)]
        for size, each in enumerate(self._each):
            if each is None and takes[size] and self._spend():
                yield tuple(int(other == size) for other in range(len(left)))
        yield from self._beside(self._rooms[number], takes, ())

    def _beside(self, room: _Vector, takes: Sequence[int], counts: Counts) -> Iterator[Counts]:
        """Ways to add places of the other sizes to ``counts`` of the first ones, until the node is full."""
        if len(counts) == len(takes):
            if self._spend() and not any(
                each is not None and takes[size] > counts[size] and _is_room(room, each)
                for size, each in enumerate(self._each)
            ):
                yield counts
            return
        each = self._each[len(counts)]
        rooms = [room]
        while each is not None and len(rooms) <= takes[len(counts)] and _is_room(rooms[-1], each):
            rooms.append(tuple(map(int.__sub__, rooms[-1], each)))
        for count in reversed(range(len(rooms))):
            if self._work.left <= 0:
                return
            yield from self._beside(rooms[count], takes, (*counts, count))

    def _spend(self) -> bool:
        self._work.left -= 1
        return self._work.left >= 0

    def _may_fit(self, number: int, left: Counts) -> bool:
        """Whether what is left does not exceed the room of this node and those after it, in sum and by size."""
        if self._work.left <= 0 or any(map(int.__gt__, left, self._fits_from[number])):
            return False
        sums = [0] * len(self._room_from[number])
        for count, each in zip(left, self._each, strict=True):
            if count and each is not None:
                sums = [total + count * amount for total, amount in zip(sums, each, strict=True)]
        return all(map(int.__le__, sums, self._room_from[number]))

    def _fits_alone(self, number: int) -> Counts:
        return tuple(
            int(may) if each is None else int(may) * _times(self._rooms[number], each)
            for each, may in zip(self._each, self._takes[number], strict=True)
        )


def _vector(room: Amount, names: Sequence[str]) -> _Vector:
    there = (sum(count for kind, count in room.gres if is_of(kind, name) or is_of(name, kind)) for name in names)
    return (room.cpus, room.memory_mb, *there)


def _taken(each: Amount, names: Sequence[str]) -> _Vector:
    """What a place takes, as numbers; a resource with a type also counts as one without."""
    return (
        each.cpus,
        each.memory_mb,
        *(sum(count for kind, count in each.gres if is_of(kind, name)) for name in names),
    )


def _is_room(room: _Vector, each: _Vector) -> bool:
    return all(map(int.__ge__, room, each))


def _times(room: _Vector, each: _Vector) -> int:
    """How often the room has as much; a place that takes nothing fits as often as the node has CPUs."""
    return min((there // taken for there, taken in zip(room, each, strict=True) if taken), default=room[0])


def _sums_from(vectors: Sequence[_Vector], width: int) -> list[_Vector]:
    nothing: _Vector = (0,) * width
    backwards = accumulate(
        reversed(vectors), lambda total, vector: tuple(map(int.__add__, total, vector)), initial=nothing
    )
    return list(backwards)[::-1]


# Ways to fill a node that are tried for one place, and for all places of a deal. Looking at a node for a size
# counts as one, so that the largest machines are not packed again.
_AT_ONCE, _IN_ALL = 2000, 10_000


class PartPacking:
    """Finds a node for a place that fits only if other places move.

    Held places that were given to their holders again stay where they are.
    """

    def __init__(self, nodes: PartNodes, claimants: Sequence[Claimant]) -> None:
        self._nodes = nodes
        self._claimants = claimants
        self._eligible = {id(claimant.eligible): claimant.eligible for claimant in claimants}
        self._left = _IN_ALL

    def node_for(self, row: int) -> PartNode | None:
        """A node on which one more place of the claimant fits now; None: none was found.

        Held places that have not been given again leave only if it is not possible without.
        """
        movable = [place for node in self._nodes.list for place in node.movable] if self._left > 0 else []
        if not movable:
            return None
        wanted = Counter(map(self._size, movable))
        wanted[size_of(self._claimants[row])] += 1
        some_are_held = any(node.held for node in self._nodes.list)
        return self._packed(row, wanted, False) or (self._packed(row, wanted, True) if some_are_held else None)

    def _packed(self, row: int, wanted: Counter[Size], with_held: bool) -> PartNode | None:
        """The same, with or without the room of held places that have not been given again."""
        sizes = list(wanted)
        self._left -= len(self._nodes.list) * len(sizes)
        if self._left <= 0:
            return None
        bins = {
            node: Bin(_movable_room(node, with_held), self._takes(node, sizes, with_held))
            for node in self._nodes.list
        }
        used = [node for node, bin_ in bins.items() if node.movable or _fits_any(bin_, sizes)]
        work = Work(min(_AT_ONCE, self._left))
        self._left -= work.left
        each = [amount for _, amount in sizes]
        found = pack(tuple(wanted.values()), each, [bins[node] for node in used], work)
        self._left += max(work.left, 0)
        return None if found is None else self._arranged(row, sizes, dict(zip(used, found, strict=True)))

    def _takes(self, node: PartNode, sizes: Sequence[Size], with_held: bool) -> tuple[bool, ...]:
        """For each size whether it may lie on the node, which has to be emptied for one that takes all of it."""
        may_be_cleared = (
            not node.used_by_site and (with_held or not node.held) and not any(place.name for place in node.given)
        )
        return tuple(
            node.name in self._eligible[own] and (each is not None or may_be_cleared) for own, each in sizes
        )

    def _arranged(self, row: int, sizes: Sequence[Size], on_node: Mapping[PartNode, Counts]) -> PartNode | None:
        """Move the places to where the packing has them; returns the node that has room for the new one."""
        own, before = size_of(self._claimants[row]), self._nodes.save()
        lifted: defaultdict[Size, list[DealtPlace]] = defaultdict(list)
        changed: dict[PartNode, list[Size]] = {}
        for node, counts in on_node.items():
            wanted = [size for size, count in zip(sizes, counts, strict=True) for _ in range(count)]
            if Counter(wanted) != Counter(map(self._size, node.movable)):
                changed[node] = wanted
                for place in node.movable:
                    self._nodes.lift(place)
                    lifted[self._size(place)].append(place)
        left_out = next(node for node in reversed(changed) if own in changed[node])
        for node, wanted in changed.items():
            while node.held and not _fit(wanted, node):
                self._nodes.evict(node)
            # Vectors do not know on which type of GPU a place without a type lies, so a packing may fail here.
            if not _fit(wanted, node):
                self._nodes.restore(before)
                return None
            if node is left_out:
                wanted.remove(own)
            for size in wanted:
                self._nodes.put(lifted[size].pop(), node, size[1])
        return left_out

    def _size(self, place: DealtPlace) -> Size:
        return size_of(self._claimants[place.row])


def _movable_room(node: PartNode, with_held: bool) -> Amount:
    leaving = (*node.movable, *(node.held if with_held else ()))
    return sum((place.amount for place in leaving), node.room)


def _fits_any(bin_: Bin, sizes: Sequence[Size]) -> bool:
    return any(
        may and (each is None or left_of(bin_.room, each) is not None)
        for may, (_, each) in zip(bin_.takes, sizes, strict=True)
    )


def _fit(sizes: Sequence[Size], node: PartNode) -> bool:
    if any(each is None for _, each in sizes):
        return node.takes(None)
    room: Amount | None = node.room
    for _, each in sizes:
        room = None if room is None or each is None else left_of(room, each)
    return room is not None


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
            each, may_use = claimant.each, (node for node in self._nodes.list if node.name in claimant.eligible)
            self._most[size] = sum(
                int(not node.used_by_site) if each is None else times_in(self._capacity[node.name], each)
                for node in may_use
            )
        return self._most[size]

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
                    new.append(Place(place.name, node.until_s))
                    gains[node.name] = claimant.key
            parts[claimant.key] = tuple(place.name for place in self._nodes.given[row])
        kept = {name for names in parts.values() for name in names}
        leaving = {place.name: gains.get(place.node.name) for place in all_held if place.name not in kept}
        return Deal(parts, leaving, tuple(new))


def _nodes_of(places: Sequence[Place], rooms: Rooms) -> dict[str, PartNode]:
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
