"""Finishing: the nodes of which new parts are lent, as a finisher is to see them. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

from freetrain.core.amounts import Amount
from freetrain.core.data_wait import WaitProfile
from freetrain.core.place import node_of
from freetrain.core.shared_nodes import NewPart, SharedNode
from freetrain.lending.facts import Facts, Request
from freetrain.lending.rooms import Rooms
from freetrain.lending.sharing.parts import Parts


def shared_nodes(
    lent: Mapping[str, Iterable[str]], facts: Facts, rooms: Rooms | None, parts: Parts
) -> Iterator[SharedNode]:
    """The nodes of which new parts are lent; none where nodes are lent whole.

    Args:
        lent: trainer → places that it is lent.
        facts: of the look.
        rooms: what is left of each node.
        parts: who was dealt what of it.
    """
    new: defaultdict[str, list[NewPart]] = defaultdict(list)
    for request in facts.requests if rooms is not None else ():
        for place in lent.get(request.id, ()) if request.needs.in_part else ():
            new[node_of(place)].append(_new_part(request, place, facts))
    for name, its_parts in new.items():
        room = rooms.get(name) if rooms is not None else None
        if room is not None:
            spare = room.free.without(_dealt_on(name, parts))
            threads = facts.snapshot.node[name].threads_per_core
            yield SharedNode(name, spare, room.free.gpus, threads, tuple(its_parts))


def _new_part(request: Request, place: str, facts: Facts) -> NewPart:
    asks = request.needs.amount_on(facts.snapshot.node[node_of(place)])
    profile = facts.data_waits.get(request.id, WaitProfile())
    waits = profile.share_with(asks.cpus, asks.memory_mb)
    cache_mb = request.cache_mb if request.needs.takes_memory else 0
    return NewPart(place, request.id, asks, waits, cache_mb, profile)


def _dealt_on(node: str, parts: Parts) -> Amount:
    """What all parts of the node take, of whomsoever, that nobody has yet."""
    each = {claimant.key: claimant.each for claimant in parts.claimants}
    new = {offer.name for offer in parts.dealt.new}
    taken = (
        each[key]
        for key, places in parts.dealt.parts.items()
        for place in places
        if place in new and node_of(place) == node
    )
    return sum((amount for amount in taken if amount is not None), Amount())
