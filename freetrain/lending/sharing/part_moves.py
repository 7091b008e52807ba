"""Places that are kept, given, moved and taken back on nodes dealt in parts; each change can be undone."""

from __future__ import annotations

from collections.abc import Callable

from freetrain.core.amounts import Amount, left_of
from freetrain.lending.sharing.part_nodes import PartNode, Place
from freetrain.lending.sharing.part_rooms import PartRooms

OnNode = tuple[PartNode, Place]


class PartMoves:
    """What everybody has been given, and how it came so.

    Args:
        rooms: what is left of the nodes.
        claimants: how many there are.

    Attributes:
        given: to each claimant, by its row.
        gains: how often room has come back.
    """

    def __init__(self, rooms: PartRooms, claimants: int) -> None:
        self._rooms = rooms
        self._undo: list[Callable[[], None]] = []
        self.given: list[list[OnNode]] = [[] for _ in range(claimants)]
        self.gains = 0

    def save(self) -> int:
        """Where things stand."""
        return len(self._undo)

    def restore(self, saved: int) -> None:
        """Back to where things stood."""
        self.gains += len(self._undo) > saved
        while len(self._undo) > saved:
            self._undo.pop()()

    def keep_one(self, row: int, kept: list[OnNode]) -> bool:
        """Give a claimant the last of the places that it holds, unless their room has been given to others."""
        while kept:
            node, place = kept.pop()
            stays = place in node.held
            if stays:
                at = node.held.index(place)
                node.held.remove(place)
                node.given.append(place)
                self.given[row].append((node, place))

            def undo(node: PartNode = node, place: Place = place, at: int | None = at if stays else None) -> None:
                kept.append((node, place))
                if at is not None:
                    self.given[row].pop()
                    node.given.remove(place)
                    node.held.insert(at, place)

            self._undo.append(undo)
            if stays:
                return True
        return False

    def give(self, row: int, node: PartNode, each: Amount | None) -> None:
        """A new place, where there is room for it; None: all of the node."""
        before = node.room
        place = Place("", row, node.room if each is None else each)
        left = Amount() if each is None else left_of(node.room, each)
        assert left is not None
        self._rooms.set(node, left)
        node.given.append(place)
        self.given[row].append((node, place))

        def undo() -> None:
            self.given[row].pop()
            node.given.remove(place)
            self._rooms.set(node, before)

        self._undo.append(undo)

    def evict(self, node: PartNode) -> None:
        """The first of the places that are held on it leaves."""
        self.gains += 1
        place, before = node.held.pop(0), node.room
        self._rooms.set(node, node.room + place.amount)

        def undo() -> None:
            node.held.insert(0, place)
            self._rooms.set(node, before)

        self._undo.append(undo)

    def lift(self, place: Place, node: PartNode) -> None:
        """A place that nobody holds yet leaves its node, to be put on another before anything else is given."""
        before = node.room
        node.given.remove(place)
        self._rooms.set(node, node.room + place.amount)

        def undo() -> None:
            node.given.append(place)
            self._rooms.set(node, before)

        self._undo.append(undo)

    def put(self, place: Place, node: PartNode, each: Amount | None) -> None:
        """A place that was lifted goes to a node on which there is room for it; None: it takes all of that."""
        before, amount = node.room, place.amount
        left = Amount() if each is None else left_of(node.room, each)
        assert left is not None
        given = self.given[place.row]
        at = next(number for number, one in enumerate(given) if one[1] is place)
        was_on, given[at] = given[at], (node, place)
        place.amount = node.room if each is None else each
        node.given.append(place)
        self._rooms.set(node, left)

        def undo() -> None:
            given[at] = was_on
            place.amount = amount
            node.given.remove(place)
            self._rooms.set(node, before)

        self._undo.append(undo)
