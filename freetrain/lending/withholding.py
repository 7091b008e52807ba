"""Withholding: why nodes that nothing speaks against are not lent all the same, rule after rule."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from freetrain.core.fragment import Fragment, node_of
from freetrain.lending.facts import Facts
from freetrain.lending.limit_claims import due_for_limits
from freetrain.lending.memory import Memory
from freetrain.lending.next_in_line import nodes_of_next
from freetrain.lending.offers import Offers, withdraw
from freetrain.lending.rooms import Rooms
from freetrain.lending.rules import NodeRules
from freetrain.lending.shadow import Shadow

WhyNot = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class WithholdContext:
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
        late: others that Slurm did not start in time.
    """

    facts: Facts
    memory: Memory
    shadow: Shadow
    nodes: NodeRules
    rooms: Rooms | None
    claimed: WhyNot
    stopped: str
    crowded_out: Sequence[Fragment]
    late: Sequence[Fragment]


def withhold(offers: Offers, context: WithholdContext) -> Offers:
    """Take back what each of ``_RULES_IN_ORDER`` names; where several name a node the first reason is shown."""
    for why_not in _RULES_IN_ORDER:
        offers = withdraw(offers, why_not(offers, context))
    return offers


def _claimed(_offers: Offers, context: WithholdContext) -> WhyNot:
    return context.claimed


def _next_in_line(offers: Offers, context: WithholdContext) -> WhyNot:
    return nodes_of_next(offers.offered, context.shadow, context.facts.snapshot, context.nodes, context.rooms)


def _blocking(_offers: Offers, context: WithholdContext) -> WhyNot:
    return context.memory.blocked.why_not(context.facts.snapshot)


def _counting_in_a_limit(_offers: Offers, context: WithholdContext) -> WhyNot:
    return due_for_limits(context.memory.limits, context.facts, context.nodes)


def _all_where_lending_is_stopped(offers: Offers, context: WithholdContext) -> WhyNot:
    return dict.fromkeys((offer.name for offer in offers.offered), context.stopped) if context.stopped else {}


def _at_fault(offers: Offers, context: WithholdContext) -> WhyNot:
    """Those that nobody has: a fragment that runs there may do well."""
    withheld = context.memory.suspects.withheld(context.facts.snapshot.time_s)
    free = (offer.name for offer in offers.offered if offer.held_by is None) if withheld else ()
    return {name: withheld[node_of(name)] for name in free if node_of(name) in withheld}


def _crowded_out(_offers: Offers, context: WithholdContext) -> WhyNot:
    return dict.fromkeys(
        (fragment.place for fragment in context.crowded_out), "a job of the site's has begun there before it"
    )


def _not_started_in_time(_offers: Offers, context: WithholdContext) -> WhyNot:
    return dict.fromkeys(map(context.nodes.place_of, context.late), "Slurm does not start what it is lent for")


def _new_ones_in_a_pause(offers: Offers, context: WithholdContext) -> WhyNot:
    if not context.facts.paused:
        return {}
    why = f"nothing more is lent: {context.facts.paused}"
    return {node.name: why for node in offers.offered if node.held_by is None}


_RULES_IN_ORDER: Sequence[Callable[[Offers, WithholdContext], WhyNot]] = (
    _claimed,
    _next_in_line,
    _blocking,
    _counting_in_a_limit,
    _all_where_lending_is_stopped,
    _at_fault,
    _crowded_out,
    _not_started_in_time,
    _new_ones_in_a_pause,
)
