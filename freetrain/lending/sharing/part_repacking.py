"""Making room on nodes dealt in parts by packing again all places that nobody holds yet."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

from freetrain.core.amounts import Amount, left_of
from freetrain.lending.sharing.claims import Claimant
from freetrain.lending.sharing.part_moves import PartMoves
from freetrain.lending.sharing.part_nodes import PartNode, Place
from freetrain.lending.sharing.part_packing import Bin, Counts, Work, pack
from freetrain.lending.sharing.part_rooms import Size, size_of

_AT_ONCE, _IN_ALL = 2000, 10_000
"""Ways to fill a node that are tried for one place, and for all places of a deal; to look at a node for a size
counts as one, so that the largest machines are left as they are."""


class PartRepacking:
    """Finds a node for a place where there is room for it only once others lie elsewhere.

    Places that are held, and have been given to their holders again, stay where they are.

    Args:
        nodes: all of them.
        claimants: whose places lie there.
        moves: what everybody has been given.
    """

    def __init__(self, nodes: Sequence[PartNode], claimants: Sequence[Claimant], moves: PartMoves) -> None:
        self._nodes = nodes
        self._claimants = claimants
        self._eligible = {id(claimant.eligible): claimant.eligible for claimant in claimants}
        self._moves = moves
        self._left = _IN_ALL

    def node_for(self, row: int) -> PartNode | None:
        """A node on which one more place of a claimant's fits now; None: there is none, or none was found.

        Places that are held and have not been given again leave only where it does not go without.
        """
        movable = self._movable() if self._left > 0 else {}
        if not movable:
            return None
        wanted = Counter(self._size(place) for places in movable.values() for place in places)
        wanted[size_of(self._claimants[row])] += 1
        someone_leaves = any(node.held for node in self._nodes)
        return self._packed(row, movable, wanted, False) or (
            self._packed(row, movable, wanted, True) if someone_leaves else None
        )

    def _movable(self) -> Mapping[str, Sequence[Place]]:
        """Node → the places on it that nobody holds yet."""
        found: defaultdict[str, list[Place]] = defaultdict(list)
        for node in self._nodes:
            for place in node.given:
                if not place.name:
                    found[node.name].append(place)
        return found

    def _packed(
        self, row: int, movable: Mapping[str, Sequence[Place]], wanted: Counter[Size], with_held: bool
    ) -> PartNode | None:
        """The same, on the room of those that others hold and have not been given again, or without it."""
        sizes = list(wanted)
        self._left -= len(self._nodes) * len(sizes)
        if self._left <= 0:
            return None
        bins = {
            node: Bin(_room_of(node, movable.get(node.name, ()), with_held), self._takes(node, sizes, with_held))
            for node in self._nodes
        }
        used = [node for node, one in bins.items() if movable.get(node.name) or _fits_any(one, sizes)]
        work = Work(min(_AT_ONCE, self._left))
        self._left -= work.left
        each = [amount for _, amount in sizes]
        found = pack(tuple(wanted.values()), each, [bins[node] for node in used], work)
        self._left += max(work.left, 0)
        if found is None:
            return None
        return self._arranged(size_of(self._claimants[row]), movable, sizes, dict(zip(used, found, strict=True)))

    def _takes(self, node: PartNode, sizes: Sequence[Size], with_held: bool) -> tuple[bool, ...]:
        """Of each size whether the node may be used for it, and could be cleared where that is to be all of it."""
        may_be_cleared = (
            not node.used_by_site and (with_held or not node.held) and not any(place.name for place in node.given)
        )
        return tuple(
            node.name in self._eligible[own] and (each is not None or may_be_cleared) for own, each in sizes
        )

    def _arranged(
        self,
        own: Size,
        movable: Mapping[str, Sequence[Place]],
        sizes: Sequence[Size],
        on_node: Mapping[PartNode, Counts],
    ) -> PartNode | None:
        """Put the places where they are to lie; the node on which one of the size ``own`` is missing then."""
        before = self._moves.save()
        lifted: defaultdict[Size, list[Place]] = defaultdict(list)
        changed: dict[PartNode, list[Size]] = {}
        for node, counts in on_node.items():
            wanted = [size for size, count in zip(sizes, counts, strict=True) for _ in range(count)]
            places = movable.get(node.name, ())
            if Counter(wanted) != Counter(map(self._size, places)):
                changed[node] = wanted
                for place in places:
                    self._moves.lift(place, node)
                    lifted[self._size(place)].append(place)
        left_out = next(node for node in reversed(changed) if own in changed[node])
        for node, wanted in changed.items():
            while node.held and not _fit(wanted, node):
                self._moves.evict(node)
            if not _fit(wanted, node):  # GPUs without a type lie on the types that another had before
                self._moves.restore(before)
                return None
            if node is left_out:
                wanted.remove(own)
            for size in wanted:
                self._moves.put(lifted[size].pop(), node, size[1])
        return left_out

    def _size(self, place: Place) -> Size:
        return size_of(self._claimants[place.row])


def _room_of(node: PartNode, movable: Sequence[Place], with_held: bool) -> Amount:
    """What may be used of a node for places that may move."""
    room = sum((place.amount for place in movable), node.room)
    return sum((place.amount for place in node.held), room) if with_held else room


def _fits_any(one: Bin, sizes: Sequence[Size]) -> bool:
    return any(
        may and (each is None or left_of(one.room, each) is not None)
        for may, (_, each) in zip(one.takes, sizes, strict=True)
    )


def _fit(sizes: Sequence[Size], node: PartNode) -> bool:
    """Whether places of these sizes fit beside what is on a node now."""
    if any(each is None for _, each in sizes):
        return node.takes(None)
    room: Amount | None = node.room
    for _, each in sizes:
        room = None if room is None or each is None else left_of(room, each)
    return room is not None
