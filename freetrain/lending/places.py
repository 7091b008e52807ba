"""Places: what may be lent of each node, whole ones or parts, with who has it. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from freetrain.core.cluster import Snapshot
from freetrain.core.fragment import Fragment, room_of
from freetrain.core.node import NodeState
from freetrain.lending.rooms import Rooms
from freetrain.lending.rules import NodeRules


class Places(NamedTuple):
    """What may be lent, with who has it; what must be given back; what is neither."""

    offered: Sequence[tuple[str, str | None]]
    due: Mapping[str, str]
    withheld: Mapping[str, str]


def whole_nodes(
    snapshot: Snapshot, holder: Mapping[str, str], why_not: Mapping[str, str], rules: NodeRules
) -> Places:
    """Each node is one place."""
    names = sorted(rules.queue.among(snapshot.partitions).nodes)
    offered = [(name, holder.get(name)) for name in names if name not in why_not]
    out = [name for name in names if name in why_not] if why_not else []
    back = {name for name in out if name in holder and _is_wanted_back(snapshot, name)}
    due = {name: why_not[name] for name in out if name in back}
    return Places(offered, due, {name: why_not[name] for name in out if name not in back})


def parts_of_nodes(
    snapshot: Snapshot, fragments: Iterable[Fragment], rooms: Rooms, why_not: Mapping[str, str], rules: NodeRules
) -> Places:
    """Each part that is lent is a place, and so is what is left of a node."""
    on: defaultdict[str, list[Fragment]] = defaultdict(list)
    for fragment in fragments:
        if fragment.goes_on:
            on[fragment.node].append(fragment)
    offered: list[tuple[str, str | None]] = []
    due: dict[str, str] = {}
    withheld: dict[str, str] = {}
    for name in sorted(rules.queue.among(snapshot.partitions).nodes):
        if name not in why_not:
            offered += [(one.place, one.trainer) for one in on[name]]
            if name in rooms and rooms[name].free.cpus:
                offered.append((room_of(name), None))
            elif not on[name]:
                withheld[name] = "jobs have all of it"
        elif on[name] and _is_wanted_back(snapshot, name):
            due |= dict.fromkeys((one.place for one in on[name]), why_not[name])
        else:
            withheld[name] = why_not[name]
    return Places(offered, due, withheld)


def _is_wanted_back(snapshot: Snapshot, name: str) -> bool:
    """Whether a lent node that may not stay lent must be given back, rather than left as it is.

    One in a state that Slurm itself does not know (after its restart), or with a flag that is new, is neither lent
    again nor taken away: unknown is not gone.
    """
    node = snapshot.node.get(name)
    if node is None or node.state not in (NodeState.IDLE, NodeState.BUSY):
        return False
    return node.may_be_lent or node.is_wanted
