"""Which nodes may be lent, until when, and why not the others: holes as they are seen live."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cached_property
from math import inf
from types import MappingProxyType
from typing import NamedTuple

from freetrain.core.cluster import Snapshot
from freetrain.core.fragment import Fragment, FragmentState, is_part, node_of, room_of
from freetrain.core.job import JobState
from freetrain.core.node import Node, NodeState
from freetrain.core.problem import Offer
from freetrain.lending.hole_ends import HoleEnd, cached_offer, ends_of_parts, hole_ends
from freetrain.lending.rooms import LentParts, Rooms
from freetrain.lending.rules import NodeRules
from freetrain.lending.shadow import NO_SEARCHES, Searches, Shadow, find_shadow
from freetrain.lending.sightings import Sightings


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


@dataclass(frozen=True)
class Offers:
    """The verdict on every node of the partition.

    Where nodes are lent in parts, each part that is lent is offered for itself, and what is left of a node beside
    them (:func:`freetrain.core.fragment.node_of` tells how they are called).

    Attributes:
        offered: places that may be lent or stay lent, with the end of their hole where one is known.
        due: lent places that must be given back now → why.
        withheld: every other node of the partition → why nothing is done with it.
    """

    offered: tuple[Offer, ...]
    due: Mapping[str, str]
    withheld: Mapping[str, str]

    @cached_property
    def held(self) -> Counter[str]:
        """Trainer → how many of the offered places it has."""
        return Counter([offer.held_by for offer in self.offered if offer.held_by is not None])


def shadow_of(
    snapshot: Snapshot,
    fragments: Iterable[Fragment],
    rules: NodeRules,
    seen: Sightings,
    parts: LentParts = MappingProxyType({}),
    before: Searches = NO_SEARCHES,
) -> Shadow:
    """What the site's jobs would do; a job that had its nodes for long and did not start waits for something else.

    Args:
        snapshot: what there is.
        fragments: those that have not ended.
        rules: what the site allows.
        seen: what was seen before.
        parts: what fragments have of each node, where nodes are lent in parts.
        before: what the look before has searched for.
    """
    if not any(job.state is JobState.PENDING for job in snapshot.jobs):
        return Shadow(snapshot.time_s, (), frozenset())
    fragments = list(fragments)
    ours = frozenset(fragment.job for fragment in fragments)
    lent_to = {fragment.node: fragment.trainer for fragment in fragments if fragment.goes_on}
    disbelieved = seen.disbelieved(snapshot.time_s, rules.claim_s)
    return find_shadow(snapshot, rules.queue, ours, lent_to, rules.backfill, disbelieved, parts, before)


def find_offers(
    snapshot: Snapshot,
    fragments: Iterable[Fragment],
    shadow: Shadow,
    rules: NodeRules,
    seen: Sightings,
    drained: Mapping[str, str],
    rooms: Rooms | None = None,
) -> Offers:
    """Judge every node of the partition.

    1. What speaks against lending a node whatever the time: Slurm, the site, other jobs on it.
    2. Who will want it, and when.
    3. Which nodes the site's jobs would start on now.
    4. What nobody has and should not be lent just now, and what would be too much.

    Args:
        snapshot: what there is.
        fragments: those that have not ended.
        shadow: what the site's jobs would do if nothing were lent.
        rules: what the site allows.
        seen: what was seen before.
        drained: nodes that the site has ordered freetrain to empty → why.
        rooms: what is left of each node, where nodes are lent in parts.
    """
    fragments = list(fragments)
    going_on, others = _by_going_on(fragments)
    # On a node that changes hands there are two: the one that leaves counts no more.
    holder = {fragment.node: fragment.trainer for fragment in going_on}
    leaving = {one.node: _why_between(one) for one in others if one.node not in holder}
    lent, ends = holder.keys() | leaving.keys(), hole_ends(snapshot, shadow)
    of_parts = ends_of_parts(snapshot, shadow, rooms or {})
    in_part = set(map(node_of, of_parts))
    why_not = {
        **{name: end.why for name, end in ends.items() if name not in in_part and _is_soon(end, snapshot, rules)},
        **({} if rules.in_parts else leaving),
        **_why_unfit(snapshot, fragments, lent, ends, rules, drained, _lent_in_parts(going_on, holder, rules)),
    }
    places = (
        parts_of_nodes(snapshot, fragments, rooms or {}, why_not, rules)
        if rules.in_parts
        else whole_nodes(snapshot, holder, why_not, rules)
    )
    until = _ends_of_places(places, ends, of_parts)
    offers = _offers(places, until, rules)
    soon = {name: end.why for name, end in until.items() if _is_soon(end, snapshot, rules)} if in_part else {}
    offers = withdraw(offers, soon)
    offers = withdraw(offers, {name: f"job {job} could start here" for name, job in shadow.kept.items()})
    offers = withdraw(offers, _not_yet(snapshot, offers.offered, rules, seen))
    return withdraw(offers, _beyond_limits(offers.offered, rules))


def _by_going_on(fragments: Iterable[Fragment]) -> tuple[list[Fragment], list[Fragment]]:
    """Those that go on, and the others."""
    found: tuple[list[Fragment], list[Fragment]] = ([], [])
    for fragment in fragments:
        found[not fragment.goes_on].append(fragment)
    return found


def _ends_of_places(
    places: Places, ends: Mapping[str, HoleEnd], of_parts: Mapping[str, HoleEnd]
) -> Mapping[str, HoleEnd]:
    """Place → how its hole ends, where that is known: for itself, or with its node."""
    names = [name for name, _ in places.offered] if ends or of_parts else []
    return {name: end for name in names if (end := of_parts.get(name) or ends.get(node_of(name))) is not None}


def _offers(places: Places, until: Mapping[str, HoleEnd], rules: NodeRules) -> Offers:
    free_until_s = {name: end.time_s - rules.margin_s for name, end in until.items() if end.time_s < inf}
    offered = tuple([cached_offer(name, free_until_s.get(name), by) for name, by in places.offered])
    return Offers(offered, places.due, places.withheld)


def _is_soon(end: HoleEnd, snapshot: Snapshot, rules: NodeRules) -> bool:
    """Whether what is lent has to be given back for it by now."""
    return end.time_s - snapshot.time_s <= rules.margin_s


def withdraw(offers: Offers, why_not: Mapping[str, str]) -> Offers:
    """The same, but that these nodes or places are not offered, for these reasons; what is lent becomes due."""
    if not why_not:
        return offers
    in_parts = any(is_part(offer.name) for offer in offers.offered[:1])  # all of them are, or none
    whys = [
        why_not.get(offer.name) or (in_parts and why_not.get(node_of(offer.name))) or None
        for offer in offers.offered
    ]
    kept = tuple(one for one, why in zip(offers.offered, whys, strict=True) if why is None)
    out = [(one, why) for one, why in zip(offers.offered, whys, strict=True) if why is not None]
    due = {one.name: why for one, why in out if one.held_by is not None}
    withheld = {node_of(one.name): why for one, why in out if one.held_by is None}
    return Offers(kept, {**offers.due, **due}, {**offers.withheld, **withheld})


def freeze(offers: Offers, why: Mapping[str, str]) -> Offers:
    """The same, but that nothing is done with these nodes or places: they are neither offered nor given back."""
    kept = tuple(offer for offer in offers.offered if offer.name not in why)
    withheld = {node_of(offer.name): why[offer.name] for offer in offers.offered if offer.name in why}
    return Offers(kept, offers.due, {**offers.withheld, **withheld}) if withheld else offers


def _why_unfit(
    snapshot: Snapshot,
    fragments: Iterable[Fragment],
    lent: Set[str],
    ends: Mapping[str, HoleEnd],
    rules: NodeRules,
    drained: Mapping[str, str],
    in_parts: Iterable[str],
) -> Mapping[str, str]:
    """Node that is not to be lent, whatever the time → the weightiest reason."""
    ours = {fragment.job for fragment in fragments} if snapshot.jobs else set()
    others = (job for job in snapshot.jobs if job.state.has_nodes and job.id not in ours)
    why = {} if rules.in_parts else {name: f"job {job.id} runs here" for job in others for name in job.nodes}
    for node in snapshot.nodes:
        if node.name not in why and not _is_free(node, lent, ends, rules):
            why[node.name] = f"Slurm says {node.state_text}"
    why |= dict.fromkeys(in_parts, "it was lent in parts before")
    why |= drained
    if rules.power is not None:
        why |= dict.fromkeys(rules.power.suspendable(snapshot, rules.queue), "Slurm powers it down when idle")
    why |= dict.fromkeys(rules.exclude, "excluded by the site")
    missing = rules.queue.among(snapshot.partitions).nodes - snapshot.node.keys()
    return why | dict.fromkeys(missing, "Slurm does not show it")


def _lent_in_parts(going_on: Sequence[Fragment], holder: Mapping[str, str], rules: NodeRules) -> list[str]:
    """Nodes that several fragments have, where nodes are lent whole by now."""
    if rules.in_parts or len(holder) == len(going_on):
        return []
    return [name for name, count in Counter(fragment.node for fragment in going_on).items() if count > 1]


def _is_free(node: Node, lent: Set[str], ends: Mapping[str, HoleEnd], rules: NodeRules) -> bool:
    """Whether Slurm says nothing against lending it, or keeping it lent."""
    if node.state is not NodeState.IDLE:
        is_shared = node.state is NodeState.BUSY and (rules.in_parts or node.name in lent)
        if not is_shared:
            return False
    return node.may_be_lent and not (node.is_planned and node.name not in ends)


_IN_BETWEEN = {FragmentState.LEAVING: "is being given back", FragmentState.ENDING: "its fragment is ending"}


def _why_between(fragment: Fragment) -> str:
    """Why nothing is to be done with the node of a fragment that does not go on."""
    return _IN_BETWEEN.get(fragment.state, "its fragment is lost")


def _not_yet(snapshot: Snapshot, offered: Iterable[Offer], rules: NodeRules, seen: Sightings) -> Mapping[str, str]:
    """Nodes that nobody has and that should not be lent just now."""
    now_s = snapshot.time_s
    is_up = rules.queue.among(snapshot.partitions).is_up
    reasons = {}
    for node in offered:
        if node.held_by is not None:
            continue
        name = node_of(node.name)
        if not is_up:
            reasons[node.name] = f"partition {rules.partition} is down"
        elif node.free_until_s is not None and node.free_until_s - now_s < rules.shortest_hole_s:
            reasons[node.name] = f"its hole ends in {node.free_until_s - now_s:.0f} s"
        elif now_s - seen.idle_since_s.get(name, now_s) < rules.idle_for_s:
            reasons[node.name] = f"idle for less than {rules.idle_for_s:.0f} s"
        elif now_s < seen.resting_until_s.get(name, 0.0):
            reasons[node.name] = "was taken back a moment ago"
    return reasons


def _beyond_limits(offered: Sequence[Offer], rules: NodeRules) -> Mapping[str, str]:
    """Nodes too many, those that nobody has first, then those that are wanted back soonest."""
    if not rules.reserve_nodes and not rules.most_nodes:
        return {}
    free_until_s = {node_of(offer.name): offer.free_until_s for offer in offered}
    allowed = max(0, len(free_until_s) - rules.reserve_nodes)
    if rules.most_nodes:
        allowed = min(allowed, rules.most_nodes)
    if allowed >= len(free_until_s):
        return {}
    held = {node_of(offer.name) for offer in offered if offer.held_by is not None}
    order = sorted(free_until_s, key=lambda name: (name not in held, -(free_until_s[name] or inf)))
    return dict.fromkeys(order[allowed:], "kept in reserve for the site")
