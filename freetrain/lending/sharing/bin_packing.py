"""Packing: arrangement of places of several sizes on nodes. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple

from freetrain.core.amounts import Amount, is_of

PlaceCounts = tuple[int, ...]
"""Number of places of each size."""

_Vector = tuple[int, ...]


class Bin(NamedTuple):
    """A node to be filled.

    Attributes:
        takes: for each size whether it may lie there; for sizes that take all of a node, whether it can be empty.
    """

    room: Amount
    takes: tuple[bool, ...]


def pack(
    wanted: PlaceCounts, sizes: Sequence[Amount | None], bins: Sequence[Bin], most_ways: int
) -> tuple[list[PlaceCounts] | None, int]:
    """Number of places of each size on each node, such that all are placed; None: no way was found.

    A place whose size is None takes all of its node, and lies there alone. The second value is the number of ways
    to fill a node that were tried, which is limited.
    """
    # Equal nodes side by side: what was a dead end on one is found at once on the next.
    order = sorted(range(len(bins)), key=lambda number: (bins[number].takes, str(bins[number].room)))
    search = _Packing(sizes, [bins[number] for number in order], most_ways)
    found = search.find(wanted)
    tried = most_ways - max(search.ways_left, 0)
    if found is None:
        return None, tried
    by_number = dict(zip(order, found, strict=True))
    return [by_number[number] for number in range(len(bins))], tried


class _Packing:
    """A depth-first search, over nodes in the order in which they are filled: equal ones follow each other.

    Vector bin packing is NP-hard: the search drops what sums of the remaining room exclude, remembers dead ends,
    and gives up at a limit of work.
    """

    def __init__(self, sizes: Sequence[Amount | None], bins: Sequence[Bin], most_ways: int) -> None:
        names = sorted({name for size in sizes if size is not None for name, _ in size.gres})
        self._each = [None if size is None else _taken(size, names) for size in sizes]
        self._rooms = [_vector(bin_.room, names) for bin_ in bins]
        self._takes = [bin_.takes for bin_ in bins]
        self.ways_left = most_ways
        self._hopeless: set[tuple[int, PlaceCounts]] = set()
        last = len(bins)
        fits = [self._fits_alone(number) for number in range(last)]
        self._fits_from = _sums_from(fits, len(sizes))
        self._room_from = _sums_from(self._rooms, 2 + len(names))

    def find(self, wanted: PlaceCounts) -> list[PlaceCounts] | None:
        """The first way that is found, depth first."""
        filled: list[PlaceCounts] = []
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

    def _ways(self, number: int, left: PlaceCounts) -> Iterator[PlaceCounts]:
        """Ways to fill a node with what is left; none if that cannot fit on this node and those after it."""
        if (number, left) in self._hopeless or not self._may_fit(number, left):
            return
        takes = [count if may else 0 for count, may in zip(left, self._takes[number], strict=True)]
        for size, each in enumerate(self._each):
            if each is None and takes[size] and self._spend():
                yield tuple(int(other == size) for other in range(len(left)))
        yield from self._beside(self._rooms[number], takes, ())

    def _beside(self, room: _Vector, takes: Sequence[int], counts: PlaceCounts) -> Iterator[PlaceCounts]:
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
            if self.ways_left <= 0:
                return
            yield from self._beside(rooms[count], takes, (*counts, count))

    def _spend(self) -> bool:
        self.ways_left -= 1
        return self.ways_left >= 0

    def _may_fit(self, number: int, left: PlaceCounts) -> bool:
        """Whether what is left does not exceed the room of this node and those after it, in sum and by size."""
        if self.ways_left <= 0 or any(map(int.__gt__, left, self._fits_from[number])):
            return False
        sums = [0] * len(self._room_from[number])
        for count, each in zip(left, self._each, strict=True):
            if count and each is not None:
                sums = [total + count * amount for total, amount in zip(sums, each, strict=True)]
        return all(map(int.__le__, sums, self._room_from[number]))

    def _fits_alone(self, number: int) -> PlaceCounts:
        return tuple(
            int(may) if each is None else int(may) * _times(self._rooms[number], each)
            for each, may in zip(self._each, self._takes[number], strict=True)
        )


def _vector(room: Amount, names: Sequence[str]) -> _Vector:
    there = (sum(count for kind, count in room.gres if is_of(kind, name) or is_of(name, kind)) for name in names)
    return (room.cpus, room.memory_mb, *there)


def _taken(each: Amount, names: Sequence[str]) -> _Vector:
    """Amount that a place takes, as numbers; a resource with a type also counts as one without."""
    return (
        each.cpus,
        each.memory_mb,
        *(sum(count for kind, count in each.gres if is_of(kind, name)) for name in names),
    )


def _is_room(room: _Vector, each: _Vector) -> bool:
    return all(map(int.__ge__, room, each))


def _times(room: _Vector, each: _Vector) -> int:
    """Number of such places that fit; if they take nothing, as many as the node has CPUs."""
    return min((there // taken for there, taken in zip(room, each, strict=True) if taken), default=room[0])


def _sums_from(vectors: Sequence[_Vector], width: int) -> list[_Vector]:
    nothing: _Vector = (0,) * width
    backwards = accumulate(
        reversed(vectors), lambda total, vector: tuple(map(int.__add__, total, vector)), initial=nothing
    )
    return list(backwards)[::-1]
