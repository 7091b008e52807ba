"""Withholding: why nodes that nothing speaks against are not lent all the same, rule after rule."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from freetrain.core.fragment import Fragment, node_of
from freetrain.lending.facts import Facts
from freetrain.lending.limit_claims import due_for_limits
from freetrain.lending.memory import Memory
from freetrain.lending.next_in_line import nodes_of_next
from freetrain.lending.offers import Offers, take_back
from freetrain.lending.rooms import Rooms
from freetrain.lending.rules import NodeRules
from freetrain.lending.shadow import Shadow

WhyNot = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Grounds:
    """What the rules look at.

    Attributes:
        facts: what the look found out.
        memory: whom fragments block.
        shadow: what the site's jobs would do if nothing were lent.
        nodes: what the site allows.
        rooms: what is left of each node, where nodes are lent in parts.
        claimed: parts of nodes on which jobs of the site would start → why they are given back.
        stopped: why nothing is to be lent at all; empty: nodes are lent.
        crowded_out: fragments whose parts of nodes jobs of the site's have taken before they began.
        in_vain: others that Slurm did not start in time.
    """

    facts: Facts
    memory: Memory
    shadow: Shadow
    nodes: NodeRules
    rooms: Rooms | None
    claimed: WhyNot
    stopped: str
    crowded_out: Sequence[Fragment]
    in_vain: Sequence[Fragment]


def withhold(offers: Offers, grounds: Grounds) -> Offers:
    """Take back what each of ``_RULES_IN_ORDER`` names; where several name a node the first reason is told."""
    for why_not in _RULES_IN_ORDER:
        offers = take_back(offers, why_not(offers, grounds))
    return offers


def _claimed(_offers: Offers, grounds: Grounds) -> WhyNot:
    return grounds.claimed


def _next_in_line(offers: Offers, grounds: Grounds) -> WhyNot:
    return nodes_of_next(offers.offered, grounds.shadow, grounds.facts.snapshot, grounds.nodes, grounds.rooms)


def _blocking(_offers: Offers, grounds: Grounds) -> WhyNot:
    return grounds.memory.blocked.why_not(grounds.facts.snapshot)


def _counting_in_a_limit(_offers: Offers, grounds: Grounds) -> WhyNot:
    return due_for_limits(grounds.memory.limits, grounds.facts, grounds.nodes)


def _all_where_lending_is_stopped(offers: Offers, grounds: Grounds) -> WhyNot:
    return dict.fromkeys((one.name for one in offers.offered), grounds.stopped) if grounds.stopped else {}


def _at_fault(offers: Offers, grounds: Grounds) -> WhyNot:
    """Those that nobody has: a fragment that runs there may do well."""
    withheld = grounds.memory.suspects.withheld(grounds.facts.snapshot.time_s)
    free = (one.name for one in offers.offered if one.held_by is None) if withheld else ()
    return {name: withheld[node_of(name)] for name in free if node_of(name) in withheld}


def _crowded_out(_offers: Offers, grounds: Grounds) -> WhyNot:
    return dict.fromkeys(
        (one.place for one in grounds.crowded_out), "a job of the site's has begun there before it"
    )


def _lent_in_vain(_offers: Offers, grounds: Grounds) -> WhyNot:
    return dict.fromkeys(map(grounds.nodes.place_of, grounds.in_vain), "Slurm does not start what it is lent for")


def _new_ones_in_a_pause(offers: Offers, grounds: Grounds) -> WhyNot:
    if not grounds.facts.paused:
        return {}
    why = f"nothing more is lent: {grounds.facts.paused}"
    return {node.name: why for node in offers.offered if node.held_by is None}


_RULES_IN_ORDER: Sequence[Callable[[Offers, Grounds], WhyNot]] = (
    _claimed,
    _next_in_line,
    _blocking,
    _counting_in_a_limit,
    _all_where_lending_is_stopped,
    _at_fault,
    _crowded_out,
    _lent_in_vain,
    _new_ones_in_a_pause,
)
