"""Packing: whether so many places of several sizes fit on some nodes at once, and how.

Nodes are filled one after the other, each so that nothing that is still to be placed would fit beside it: whatever
else fits, that does too. What was found not to fit on the nodes that follow is not tried again. So the answer is
exact as long as the work lasts, which is counted in ways to fill a node, not in seconds: the same question has the
same answer on every machine.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

from freetrain.core.amounts import Amount, is_of

Counts = tuple[int, ...]
"""How many places of each size."""

_Vector = tuple[int, ...]


class Bin(NamedTuple):
    """A node to be filled.

    Attributes:
        room: what may be used of it.
        takes: of each size whether it may be there; of those that take all of a node whether nobody else is.
    """

    room: Amount
    takes: tuple[bool, ...]


@dataclass(slots=True)
class Work:
    """How much may still be tried.

    Attributes:
        left: ways to fill a node.
    """

    left: int


def pack(wanted: Counts, sizes: Sequence[Amount | None], bins: Sequence[Bin], work: Work) -> list[Counts] | None:
    """How many places of each size lie on each node, so that all that are wanted do; None: no way was found.

    Args:
        wanted: how many of each size.
        sizes: how much a place takes of its node; None: all of it, beside nobody.
        bins: the nodes.
        work: what it may cost; what it did is taken off.
    """
    order = sorted(range(len(bins)), key=lambda number: (bins[number].takes, str(bins[number].room)))
    found = _Search(sizes, [bins[number] for number in order], work).find(wanted)
    if found is None:
        return None
    by_number = dict(zip(order, found, strict=True))
    return [by_number[number] for number in range(len(bins))]


class _Search:
    """One question, for nodes in the order in which they are filled: equal ones follow each other."""

    def __init__(self, sizes: Sequence[Amount | None], bins: Sequence[Bin], work: Work) -> None:
        names = _names_in(sizes)
        self._each = [None if size is None else _taken(size, names) for size in sizes]
        self._rooms = [_vector(bin_.room, names) for bin_ in bins]
        self._takes = [bin_.takes for bin_ in bins]
        self._work = work
        self._in_vain: set[tuple[int, Counts]] = set()
        last = len(bins)
        fits = [self._fits_alone(number) for number in range(last)]
        self._fits_from = _sums_from(fits, len(sizes))
        self._room_from = _sums_from(self._rooms, 2 + len(names))

    def find(self, wanted: Counts) -> list[Counts] | None:
        """The first way that there is."""
        filled: list[Counts] = []
        ways = [self._ways(0, wanted)]
        left = [wanted]
        while any(left[-1]):
            way = next(ways[-1], None)
            if way is None:
                self._in_vain.add((len(filled), left[-1]))
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
        """How a node may be filled with what is left; nothing where that cannot come to anything."""
        if (number, left) in self._in_vain or not self._may_fit(number, left):
            return
        takes = [count if may else 0 for count, may in zip(left, self._takes[number], strict=True)]
        for size, each in enumerate(self._each):
            if each is None and takes[size] and self._spend():
                yield tuple(int(other == size) for other in range(len(left)))
        yield from self._beside(self._rooms[number], takes, ())

    def _beside(self, room: _Vector, takes: Sequence[int], counts: Counts) -> Iterator[Counts]:
        """Ways to put places of the sizes that follow beside so many of those before."""
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
            rooms.append(tuple(amount - one for amount, one in zip(rooms[-1], each, strict=True)))
        for count in reversed(range(len(rooms))):
            if self._work.left <= 0:
                return
            yield from self._beside(rooms[count], takes, (*counts, count))

    def _spend(self) -> bool:
        """Whether one more way may be tried."""
        self._work.left -= 1
        return self._work.left >= 0

    def _may_fit(self, number: int, left: Counts) -> bool:
        """Whether what is left does not exceed all that this node and those that follow have."""
        if self._work.left <= 0 or any(map(int.__gt__, left, self._fits_from[number])):
            return False
        sums = [0] * len(self._room_from[number])
        for count, each in zip(left, self._each, strict=True):
            if count and each is not None:
                sums = [total + count * one for total, one in zip(sums, each, strict=True)]
        return all(map(int.__le__, sums, self._room_from[number]))

    def _fits_alone(self, number: int) -> Counts:
        """How many places of each size fit on a node if nothing else is there."""
        return tuple(
            int(may) if each is None else int(may) * _times(self._rooms[number], each)
            for each, may in zip(self._each, self._takes[number], strict=True)
        )


def _names_in(sizes: Sequence[Amount | None]) -> Sequence[str]:
    """The generic resources that anybody asks for, with types and without."""
    return sorted({name for size in sizes if size is not None for name, _ in size.gres})


def _vector(room: Amount, names: Sequence[str]) -> _Vector:
    """What there is; of a resource without a type all types together."""
    there = (sum(count for one, count in room.gres if is_of(one, name) or is_of(name, one)) for name in names)
    return (room.cpus, room.memory_mb, *there)


def _taken(each: Amount, names: Sequence[str]) -> _Vector:
    """What a place takes; one of a type counts among those without, too."""
    return (
        each.cpus,
        each.memory_mb,
        *(sum(count for one, count in each.gres if is_of(one, name)) for name in names),
    )


def _is_room(room: _Vector, each: _Vector) -> bool:
    return all(map(int.__ge__, room, each))


def _times(room: _Vector, each: _Vector) -> int:
    """How often there is as much; at most as often as the node has CPUs."""
    return min((amount // one for amount, one in zip(room, each, strict=True) if one), default=room[0])


def _sums_from(vectors: Sequence[_Vector], width: int) -> list[_Vector]:
    """What each has together with all that follow."""
    nothing: _Vector = (0,) * width
    backwards = accumulate(
        reversed(vectors), lambda one, other: tuple(map(int.__add__, one, other)), initial=nothing
    )
    return list(backwards)[::-1]
