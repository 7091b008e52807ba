"""Finishing: the nodes of which a trainer is lent new parts, as a finisher is to see them. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from freetrain.core.amounts import Amount
from freetrain.core.fragment import node_of
from freetrain.core.shared_nodes import NewPart, SharedNode
from freetrain.lending.facts import Facts
from freetrain.lending.rooms import Rooms
from freetrain.lending.sharing.parts import Parts


def shared_nodes(
    trainer: str, places: Iterable[str], facts: Facts, rooms: Rooms | None, parts: Parts
) -> Iterator[SharedNode]:
    """The nodes on which this trainer is lent new parts; none where it is lent whole nodes.

    Args:
        trainer: which.
        places: that it is lent.
        facts: of the look.
        rooms: what is left of each node.
        parts: who was dealt what of it.
    """
    request = next(one for one in facts.requests if one.id == trainer)
    needs = request.needs
    if rooms is None or not needs.in_part:
        return
    new: defaultdict[str, list[str]] = defaultdict(list)
    for place in places:
        new[node_of(place)].append(place)
    for name, its in new.items():
        node, room = facts.snapshot.node[name], rooms.get(name)
        if room is not None:
            asks = needs.amount_on(node)
            spare = room.free.without(_dealt_on(name, parts))
            said = facts.data_waits.get(trainer)
            waits = said.share_with(asks.cpus) if said else 0.0
            cache_mb = request.cache_mb if needs.takes_memory else 0
            its_parts = tuple(NewPart(place, asks, waits, cache_mb) for place in its)
            yield SharedNode(name, spare, room.free.gpus, node.threads_per_core, its_parts)


def _dealt_on(node: str, parts: Parts) -> Amount:
    """What all parts of the node take, of whomsoever, that nobody has yet."""
    each = {one.key: one.each for one in parts.claimants}
    new = {one.name for one in parts.dealt.new}
    taken = (
        each[key]
        for key, places in parts.dealt.parts.items()
        for place in places
        if place in new and node_of(place) == node
    )
    return sum((amount for amount in taken if amount is not None), Amount())
