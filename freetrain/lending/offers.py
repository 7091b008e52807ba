"""Offers: the places that may be lent, their holders, and the verdicts on the others.

Tasks of several nodes keep all of them or none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType

from freetrain.core.cluster import Snapshot
from freetrain.core.fragment import Fragment
from freetrain.core.grouping import grouped
from freetrain.core.job import JobState
from freetrain.core.place import Place
from freetrain.lending.facts import Facts
from freetrain.lending.rooms import LentParts
from freetrain.lending.rules import NodeRules
from freetrain.lending.shadow import NO_SHADOW, Shadow, find_shadow
from freetrain.lending.sightings import Sightings


@dataclass(frozen=True)
class Offers:
    """The verdict on every node of the partition.

    If nodes are lent in parts, each lent part is an offer, and so is what is left of the node
    (:func:`freetrain.core.place.node_of` explains their names).

    Attributes:
        offered: places that may be lent or stay lent, with the end of their hole if it is known.
        due: lent places that must be given back now → why.
        withheld: every other node of the partition → reason why nothing is done with it.
    """

    offered: tuple[Place, ...]
    due: Mapping[str, str]
    withheld: Mapping[str, str]
    verdicts: Mapping[str, str] = field(default_factory=dict, compare=False)

    @cached_property
    def held(self) -> Counter[str]:
        """Trainer → number of the offered places that it has."""
        return Counter([offer.holder for offer in self.offered if offer.holder is not None])


def shadow_of(
    snapshot: Snapshot,
    fragments: Sequence[Fragment],
    rules: NodeRules,
    seen: Sightings,
    parts: LentParts = MappingProxyType({}),
    before: Shadow = NO_SHADOW,
) -> Shadow:
    """The shadow schedule: Slurm's plan of the site's jobs if nothing were lent."""
    if not any(job.state is JobState.PENDING for job in snapshot.jobs):
        return Shadow(snapshot.time_s, (), frozenset())
    ours = frozenset(fragment.job for fragment in fragments)
    lent_to = {fragment.node: fragment.trainer for fragment in fragments if fragment.goes_on}
    # A job whose nodes were free for long and that did not start waits for something unknown, so it gets none.
    disbelieved = seen.disbelieved(snapshot.time_s, rules.claim_s)
    return find_shadow(snapshot, rules.queue, ours, lent_to, rules.backfill, disbelieved, parts, before)


def doubtful_nodes(facts: Facts, offers: Offers, rules: NodeRules) -> Mapping[str, str]:
    """Places of tasks that also have nodes in an unknown state → why they are left as they are."""
    return {
        place: "its task has other nodes of which nothing is certain"
        for places in cut_tasks(facts, offers, rules).values()
        if offers.due.keys().isdisjoint(places)
        for place in places
    }


def cut_tasks(facts: Facts, offers: Offers, rules: NodeRules) -> Mapping[str, Sequence[str]]:
    """Tasks with their places, of which some are not offered: if one node has to go, the others go with it."""
    tasks = {request.id for request in facts.requests if request.filler}
    if not tasks:
        return {}
    own = (fragment for fragment in facts.fragments if fragment.goes_on and fragment.trainer in tasks)
    places_of = grouped((fragment.trainer, rules.place_of(fragment)) for fragment in own)
    offered = {offer.name for offer in offers.offered}
    return {task: places for task, places in places_of.items() if not offered.issuperset(places)}
