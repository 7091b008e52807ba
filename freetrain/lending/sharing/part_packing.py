"""Making room on nodes that are dealt in parts, by packing again all places that are not held yet.

This is vector bin packing (CPUs, memory, generic resources), which is NP-hard: a depth-first search over the nodes
fills them one after the other, drops what sums of the remaining room exclude, remembers dead ends, and gives up at
a limit of work.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

from freetrain.core.amounts import Amount, is_of, left_of
from freetrain.lending.sharing.claims import Claimant
from freetrain.lending.sharing.part_nodes import DealtPlace, PartNode, PartNodes, Size, size_of

Counts = tuple[int, ...]
"""How many places of each size."""

_Vector = tuple[int, ...]


class Bin(NamedTuple):
    """A node to be filled.

    Attributes:
        room: what may be used of it.
        takes: for each size whether it may lie there; for sizes that take all of a node, whether it can be empty.
    """

    room: Amount
    takes: tuple[bool, ...]


@dataclass(slots=True)
class Work:
    """A limit of work that is used up.

    Attributes:
        left: how many ways to fill a node may still be tried.
    """

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
    """One search, over nodes in the order in which they are filled: equal ones follow each other."""

    def __init__(self, sizes: Sequence[Amount | None], bins: Sequence[Bin], work: Work) -> None:
        names = _names_in(sizes)
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
        """Whether one more way may be tried."""
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
        """How many places of each size fit on an empty node."""
        return tuple(
            int(may) if each is None else int(may) * _times(self._rooms[number], each)
            for each, may in zip(self._each, self._takes[number], strict=True)
        )


def _names_in(sizes: Sequence[Amount | None]) -> Sequence[str]:
    """The generic resources that some place asks for, with and without a type."""
    return sorted({name for size in sizes if size is not None for name, _ in size.gres})


def _vector(room: Amount, names: Sequence[str]) -> _Vector:
    """A room as numbers; a resource without a type counts all types together."""
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
    """The sum of each vector and all after it."""
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
    """The room of a node if all places that may move have left."""
    leaving = (*node.movable, *(node.held if with_held else ()))
    return sum((place.amount for place in leaving), node.room)


def _fits_any(bin_: Bin, sizes: Sequence[Size]) -> bool:
    return any(
        may and (each is None or left_of(bin_.room, each) is not None)
        for may, (_, each) in zip(bin_.takes, sizes, strict=True)
    )


def _fit(sizes: Sequence[Size], node: PartNode) -> bool:
    """Whether places of these sizes fit beside what is on the node now."""
    if any(each is None for _, each in sizes):
        return node.takes(None)
    room: Amount | None = node.room
    for _, each in sizes:
        room = None if room is None or each is None else left_of(room, each)
    return room is not None
