"""What is done with each node, as the offers and the fragments on it say; equal ones together. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from freetrain.core.fragment import Fragment, FragmentState
from freetrain.core.place import node_of
from freetrain.daemon.reports.status import LONGEST, NodeGroup, NodeStanding
from freetrain.lending.offers import Offers
from freetrain.slurm.parsing import fold_nodes

_ORDER = (
    FragmentState.LOST,
    FragmentState.LEAVING,
    FragmentState.ENDING,
    FragmentState.ASKED,
    FragmentState.RUNNING,
)


def groups_of(offers: Offers, fragments: Iterable[Fragment]) -> tuple[NodeGroup, ...]:
    """What is done with each node, as the fragments on it say, and why."""
    on = {name: _together(own) for name, own in _by_node(fragments).items()}
    # Of a node that is lent in parts, what is to be given back says most, then what may be lent.
    named = offers.verdicts
    found = {
        name: _of_lent(NodeGroup("", "not lent", "", why[:LONGEST], verdict=named.get(name, "")), on.get(name))
        for name, why in offers.withheld.items()
    }
    for place in offers.offered:
        name = place.node
        until_s = None if place.until_s is None else round(place.until_s)
        found[name] = _of_lent(NodeGroup("", "free", until_s=until_s), on.get(name))
    for name, why in offers.due.items():
        group = NodeGroup("", "due back", "", why[:LONGEST], verdict=named.get(name, ""))
        found[node_of(name)] = _of_lent(group, on.get(node_of(name)))
    return gathered(found)


def _by_node(fragments: Iterable[Fragment]) -> Mapping[str, Sequence[Fragment]]:
    on: defaultdict[str, list[Fragment]] = defaultdict(list)
    for fragment in fragments:
        on[fragment.node].append(fragment)
    return on


def _together(own: Sequence[Fragment]) -> Fragment:
    """What the fragments of one node say: the one that is furthest, with all the trainers that have parts of it.

    A node that changes hands has two for a moment, of which the one that comes counts.
    """
    first = sorted(own, key=lambda fragment: _ORDER.index(fragment.state))[-1]
    trainers = {fragment.trainer for fragment in own if fragment.goes_on} or {first.trainer}
    return replace(first, trainer=", ".join(sorted(trainers)))


def gathered(verdicts: Mapping[str, NodeGroup]) -> tuple[NodeGroup, ...]:
    """Nodes with equal verdicts together.

    Args:
        verdicts: node → what holds for it.
    """
    groups: dict[NodeGroup, list[str]] = {}
    for name, verdict in sorted(verdicts.items()):
        groups.setdefault(replace(verdict, nodes=""), []).append(name)
    return tuple(replace(verdict, nodes=fold_nodes(names)) for verdict, names in groups.items())


def _of_lent(group: NodeGroup, fragment: Fragment | None) -> NodeGroup:
    """The same for a node with a fragment: one that goes on says more than what was found before."""
    if fragment is None or fragment.state is FragmentState.LOST:
        return group
    if fragment.state in (FragmentState.LEAVING, FragmentState.ENDING):
        return replace(group, state="due back", trainer=fragment.trainer, until_s=None)
    if group.state == "due back":
        return replace(group, trainer=fragment.trainer)
    state: NodeStanding = "lent" if fragment.state is FragmentState.RUNNING else "asked for"
    return replace(group, state=state, trainer=fragment.trainer)
