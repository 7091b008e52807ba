"""Tasks of several nodes, which keep all of them or none, among all that competes. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from freetrain.lending.facts import Facts
from freetrain.lending.offers import Offers
from freetrain.lending.rules import NodeRules


def doubtful_nodes(facts: Facts, offers: Offers, rules: NodeRules) -> Mapping[str, str]:
    """Nodes of tasks that have others of which nothing is certain → why they are left as they are."""
    tasks = _places_of_tasks(facts, rules)
    offered = {offer.name for offer in offers.offered} if tasks else set()
    return {
        place: "its task has other nodes of which nothing is certain"
        for places in tasks.values()
        if offers.due.keys().isdisjoint(places) and not offered.issuperset(places)
        for place in places
    }


def cut_tasks(facts: Facts, offers: Offers, rules: NodeRules) -> set[str]:
    """Tasks not all of whose nodes are offered: where one has to go the others go with it."""
    tasks = _places_of_tasks(facts, rules)
    offered = {offer.name for offer in offers.offered} if tasks else set()
    return {task for task, places in tasks.items() if not offered.issuperset(places)}


def _places_of_tasks(facts: Facts, rules: NodeRules) -> Mapping[str, list[str]]:
    """Task that runs, or is to start → its nodes."""
    tasks = {request.id for request in facts.requests if request.filler}
    places: defaultdict[str, list[str]] = defaultdict(list)
    for fragment in facts.fragments if tasks else ():
        if fragment.goes_on and fragment.trainer in tasks:
            places[fragment.trainer].append(rules.place_of(fragment))
    return places
