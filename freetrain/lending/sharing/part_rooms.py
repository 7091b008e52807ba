"""What is left of nodes that are dealt in parts, the smallest room first."""

from __future__ import annotations

import heapq
from collections.abc import Sequence

from freetrain.core.amounts import Amount
from freetrain.lending.sharing.claims import Claimant
from freetrain.lending.sharing.part_nodes import Order, PartNode

Size = tuple[int, Amount | None]
"""What a place takes of which nodes: the identity of the set of these, and how much; None: all of a node."""


def size_of(claimant: Claimant) -> Size:
    """What one of its places takes; claimants of one size find room on the same nodes."""
    return id(claimant.eligible), claimant.each


class PartRooms:
    """The nodes, in the order of their rooms for each size of place.

    Rooms change often and are asked for often: each size has a heap, to which a node is added with each change of
    its room, and whose entries are dropped when they come up and are not true any more.

    Args:
        nodes: all of them.
        claimants: whose places are looked for.
    """

    def __init__(self, nodes: Sequence[PartNode], claimants: Sequence[Claimant]) -> None:
        self._number = {node.name: number for number, node in enumerate(nodes)}
        self._eligible = {id(claimant.eligible): claimant.eligible for claimant in claimants}
        self._heaps: dict[Size, list[tuple[Order, PartNode]]] = {}
        for own in claimants:
            if size_of(own) not in self._heaps:
                may_use = [node for node in nodes if node.name in own.eligible and node.takes(own.each)]
                heap = [(node.order(self._number[node.name]), node) for node in may_use]
                heapq.heapify(heap)
                self._heaps[size_of(own)] = heap

    def first_taking(self, own: Claimant, but: PartNode | None = None) -> PartNode | None:
        """The node with the smallest room in which a place of the claimant's fits, but for one."""
        heap = self._heaps[size_of(own)]
        passed, found = [], None
        while heap and found is None:
            order, node = heap[0]
            is_so = order == node.order(order[-1]) and node.takes(own.each)
            if is_so and node is not but:
                found = node
            else:
                heapq.heappop(heap)
                passed += [(order, node)] if is_so else []
        for entry in passed[:1]:
            heapq.heappush(heap, entry)
        return found

    def set(self, node: PartNode, room: Amount) -> None:
        """So much is left of a node now."""
        node.room = room
        entry = (node.order(self._number[node.name]), node)
        for (eligible, each), heap in self._heaps.items():
            if node.name in self._eligible[eligible] and node.takes(each):
                heapq.heappush(heap, entry)
