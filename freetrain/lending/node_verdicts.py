"""Verdicts on nodes: reasons why a node is not lent, what happens to a lent one, and what would change that. Pure.

``NODE_VERDICTS`` is the one table of them. It is walked from the top, and each place ends with the first verdict
that names it; what none names may be lent. Tasks of several nodes keep all of them or none.

1. Obstacles to lending a node whatever the time: Slurm, the site, other jobs on it.
2. Reservations and jobs that will want it, and jobs of the site that would start on it now.
3. Idle nodes that should not be lent just now, and nodes in excess of what may be lent.
4. Jobs of the site for which nodes are kept free or given back, and nodes on which Slurm or programs failed.
5. Consequences of what else is lent, or is not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from math import inf

from freetrain.core.cluster import Snapshot
from freetrain.core.fragment import Fragment, FragmentState
from freetrain.core.grouping import grouped
from freetrain.core.node import Node, NodeState
from freetrain.core.place import Place, is_part, node_of, room_of
from freetrain.lending.facts import Bar, Facts, WhyNot
from freetrain.lending.hole_ends import HoleEnd, ends_of_parts, hole_ends, nodes_of_next
from freetrain.lending.limit_claims import due_for_limits
from freetrain.lending.memory import Memory
from freetrain.lending.rooms import Rooms
from freetrain.lending.rules import NodeRules
from freetrain.lending.shadow import Shadow


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
    def until_s(self) -> Mapping[str, float]:
        """Offered place → the end of its hole, UTC epoch seconds; those without a known end are missing."""
        return {offer.name: offer.until_s for offer in self.offered if offer.until_s is not None}

    @cached_property
    def held(self) -> Counter[str]:
        """Trainer → number of the offered places that it has."""
        return Counter([offer.holder for offer in self.offered if offer.holder is not None])


class AppliesTo(StrEnum):
    """Places that a verdict concerns."""

    IDLE = "idle"
    """Places that are not lent; those that are stay on offer, and may go to another trainer."""
    LENT = "lent"
    BOTH = "both"


@dataclass(frozen=True)
class NodeContext:
    """Inputs of the verdicts on nodes.

    Attributes:
        claimed: parts of nodes on which jobs of the site would start → why they are given back.
        backing_off: reason why nothing is lent after freetrain has done harm; empty: nodes are lent.
        crowded_out: fragments whose parts of nodes jobs of the site's have taken before they began.
        late: other fragments that Slurm did not start in time.
        slow: trainer that takes longer than ``harm.limit`` to leave its nodes → seconds that it takes.
        competing: trainers that compete for nodes; None: not known yet.
    """

    facts: Facts
    memory: Memory
    shadow: Shadow
    nodes: NodeRules
    rooms: Rooms | None = None
    claimed: WhyNot = field(default_factory=dict)
    backing_off: str = ""
    crowded_out: Sequence[Fragment] = ()
    late: Sequence[Fragment] = ()
    slow: Mapping[str, float] = field(default_factory=dict)
    competing: Collection[str] | None = None

    @property
    def snapshot(self) -> Snapshot:
        """The machine and its jobs."""
        return self.facts.snapshot

    @property
    def now_s(self) -> float:
        """The instant of the look, UTC epoch seconds."""
        return self.facts.snapshot.time_s

    @cached_property
    def leaving(self) -> WhyNot:
        """Node whose fragments all are leaving, ending or lost → their state, as a clause."""
        others = (fragment for fragment in self.facts.fragments if not fragment.goes_on)
        return {other.node: _IN_BETWEEN[other.state] for other in others if other.node not in self.facts.holder}

    @cached_property
    def ends_of_nodes(self) -> Mapping[str, HoleEnd]:
        """Node → the end of its hole, where it is known."""
        return hole_ends(self.snapshot, self.shadow)

    @cached_property
    def ends_of_parts(self) -> Mapping[str, HoleEnd]:
        """Lent part of a node → the end of its hole, where that is not the node's."""
        return ends_of_parts(self.snapshot, self.shadow, self.rooms or {})

    def hole_end(self, place: str) -> HoleEnd | None:
        """The end of a place's hole; None: unknown."""
        return self.ends_of_parts.get(place) or self.ends_of_nodes.get(node_of(place))


_IN_BETWEEN = {
    FragmentState.LEAVING: "is being given back",
    FragmentState.ENDING: "its fragment is ending",
    FragmentState.LOST: "its fragment is lost",
}


@dataclass(frozen=True, slots=True)
class NodeVerdict:
    """One reason for which places are not lent.

    Attributes:
        find: function of the offers so far that returns: node or place that is not lent → why.
        ends_when: sentence on what would change it, in which ``{node}`` stands for the node.
        freezes: whether a lent place stays with its trainer, and is not lent again; else its fragment leaves.
    """

    name: str
    find: Callable[[Offers, NodeContext], WhyNot]
    ends_when: str
    applies_to: AppliesTo = AppliesTo.BOTH
    freezes: bool = False

    def applied(self, offers: Offers, context: NodeContext) -> Offers:
        """The offers without the places that this verdict names."""
        why_not = self.find(offers, context)
        if not why_not:
            return offers
        in_parts, kept = context.nodes.in_parts, list[Place]()
        due, withheld, verdicts = dict(offers.due), dict(offers.withheld), dict(offers.verdicts)
        for offer in offers.offered:
            node = offer.node if in_parts else offer.name
            why = why_not.get(offer.name) or why_not.get(node)
            if why is None or self.applies_to is (AppliesTo.LENT if offer.holder is None else AppliesTo.IDLE):
                kept.append(offer)
            elif offer.holder is not None and self._is_given_back(context.snapshot.node.get(node)):
                due[offer.name], verdicts[offer.name] = why, self.name
            else:
                withheld[node], verdicts[node] = why, self.name
        return Offers(tuple(kept), due, withheld, verdicts)

    def _is_given_back(self, node: Node | None) -> bool:
        # Slurm does not know some nodes' states after its restart, and a flag may be new: unknown is not gone.
        if self.freezes or node is None or node.state not in (NodeState.IDLE, NodeState.BUSY):
            return False
        return node.may_be_lent or node.is_wanted


def judge_nodes(context: NodeContext) -> Offers:
    """Places that may be lent, and the verdict on every other node, before it is known which trainers compete."""
    offers = Offers(tuple(_all_places(context)), {}, {})
    for verdict in NODE_VERDICTS:
        offers = verdict.applied(offers, context)
    return offers


def _all_places(context: NodeContext) -> Iterator[Place]:
    """Every place of the partition, before any verdict.

    If nodes are lent in parts, each lent part is a place, and so is what is left of a node. A node of which
    nothing is left and nothing lent is a place itself.
    """
    names = sorted(context.nodes.queue.among(context.snapshot.partitions).nodes)
    places: list[tuple[str, str | None]] = []
    if not context.nodes.in_parts:
        places = [(name, context.facts.holder.get(name)) for name in names]
    else:
        rooms = context.rooms or {}
        on = grouped((fragment.node, fragment) for fragment in context.facts.fragments if fragment.goes_on)
        for name in names:
            has_room = name in rooms and rooms[name].free.cpus
            places += [(fragment.place, fragment.trainer) for fragment in on[name]]
            if has_room or not on[name]:
                places.append((room_of(name) if has_room else name, None))
    is_any_end_known = context.ends_of_nodes or context.ends_of_parts
    for name, holder in places:
        end = context.hole_end(name) if is_any_end_known else None
        until_s = None if end is None or end.time_s == inf else end.time_s - context.nodes.margin_s
        yield Place(name, until_s, holder)


def _not_shown(_offers: Offers, context: NodeContext) -> WhyNot:
    names = context.nodes.queue.among(context.snapshot.partitions).nodes
    return dict.fromkeys(names - context.snapshot.node.keys(), "Slurm does not show it")


def _excluded(_offers: Offers, context: NodeContext) -> WhyNot:
    return dict.fromkeys(context.nodes.exclude, "excluded by the site")


def _by_order(verdict: str) -> Callable[[Offers, NodeContext], WhyNot]:
    return lambda _, context: context.facts.orders.kept_off.get(verdict, {})


def _powered_down(_offers: Offers, context: NodeContext) -> WhyNot:
    if context.nodes.power is None:
        return {}
    suspendable = context.nodes.power.suspendable(context.snapshot, context.nodes.queue)
    return dict.fromkeys(suspendable, "Slurm powers it down when idle")


def _lent_in_parts(_offers: Offers, context: NodeContext) -> WhyNot:
    """Nodes that several fragments have, where nodes are lent whole by now."""
    if context.nodes.in_parts:
        return {}
    on = Counter(fragment.node for fragment in context.facts.fragments if fragment.goes_on)
    return {name: "it was lent in parts before" for name, count in on.items() if count > 1}


def _used_by_the_site(_offers: Offers, context: NodeContext) -> WhyNot:
    if context.nodes.in_parts or not context.snapshot.jobs:
        return {}
    jobs, ours = context.snapshot.jobs, context.facts.jobs
    others = (job for job in jobs if job.state.has_nodes and job.id not in ours)
    return {name: f"job {job.id} runs here" for job in others for name in job.nodes}


def _not_free(offers: Offers, context: NodeContext) -> WhyNot:
    nodes = context.snapshot.node
    unfit = (offer.name for offer in offers.offered if not _is_free(nodes[offer.node], context))
    return {name: f"Slurm says {nodes[node_of(name)].state_text}" for name in unfit}


def _is_free(node: Node, context: NodeContext) -> bool:
    if node.state is not NodeState.IDLE:
        is_lent = node.name in context.facts.holder or node.name in context.leaving
        if node.state is not NodeState.BUSY or not (context.nodes.in_parts or is_lent):
            return False
    # PLANNED without a job that is known to start there: nobody can say when the node is wanted.
    return node.may_be_lent and not (node.is_planned and node.name not in context.ends_of_nodes)


def _between_two_states(_offers: Offers, context: NodeContext) -> WhyNot:
    return {} if context.nodes.in_parts else context.leaving


def _without_room(offers: Offers, context: NodeContext) -> WhyNot:
    if not context.nodes.in_parts:
        return {}
    # A place has the bare name of its node only where no part of it is free or lent (``_all_places``).
    return {offer.name: "jobs have all of it" for offer in offers.offered if not is_part(offer.name)}


def _wanted_soon(offers: Offers, context: NodeContext) -> WhyNot:
    """Places that a job or a reservation will want so soon that they have to be given back by now."""
    if not context.ends_of_nodes and not context.ends_of_parts:
        return {}
    latest_s = context.now_s + context.nodes.margin_s
    ends = ((offer.name, context.hole_end(offer.name)) for offer in offers.offered)
    return {name: end.why for name, end in ends if end is not None and end.time_s <= latest_s}


def _wanted_now(_offers: Offers, context: NodeContext) -> WhyNot:
    return {name: f"job {job} could start here" for name, job in context.shadow.kept.items()}


def _partition_down(offers: Offers, context: NodeContext) -> WhyNot:
    if context.nodes.queue.among(context.snapshot.partitions).is_up:
        return {}
    return dict.fromkeys(_idle(offers), f"partition {context.nodes.partition} is down")


def _short(offers: Offers, context: NodeContext) -> WhyNot:
    shortest_s = context.nodes.shortest_hole_s
    lasts_s = {name: until_s - context.now_s for name, until_s in offers.until_s.items()}
    return {name: f"its hole ends in {left_s:.0f} s" for name, left_s in lasts_s.items() if left_s < shortest_s}


def _just_idle(offers: Offers, context: NodeContext) -> WhyNot:
    now_s, idle_for_s, since_s = context.now_s, context.nodes.idle_for_s, context.memory.sightings.idle_since_s
    if not idle_for_s:
        return {}
    new = (name for name in _idle(offers) if now_s - since_s.get(node_of(name), now_s) < idle_for_s)
    return dict.fromkeys(new, f"idle for less than {idle_for_s:.0f} s")


def _at_rest(_offers: Offers, context: NodeContext) -> WhyNot:
    until_s = context.memory.sightings.resting_until_s
    return {name: "was taken back a moment ago" for name, end_s in until_s.items() if context.now_s < end_s}


def _in_reserve(offers: Offers, context: NodeContext) -> WhyNot:
    """Nodes in excess of what may be lent: idle ones first, then those that are wanted back soonest."""
    rules = context.nodes
    if not rules.reserve_nodes and not rules.most_nodes:
        return {}
    until_s = {offer.node: offer.until_s for offer in offers.offered}
    allowed = max(0, len(until_s) - rules.reserve_nodes)
    if rules.most_nodes:
        beside = {fragment.node for fragment in left_alone(offers, context)}
        allowed = min(allowed, max(0, rules.most_nodes - len(beside)))
    held = {offer.node for offer in offers.offered if offer.holder is not None}
    # Idle nodes on which programs fail are not lent anyway: they come first into the reserve, and use up no limit.
    failing = _at_fault(offers, context)
    order = sorted(until_s, key=lambda name: (name not in held, name in failing, -(until_s[name] or inf)))
    return dict.fromkeys(order[allowed:], "kept in reserve for the site")


def left_alone(offers: Offers, context: NodeContext) -> Sequence[Fragment]:
    """Fragments that go on and with which nothing is done, since Slurm says nothing certain of their nodes.

    They count in every limit. Those on nodes that are down do not: they end as soon as Slurm says so.
    """
    if context.facts.holder.keys().isdisjoint(offers.withheld):
        return ()
    judged = offers.due.keys() | {offer.name for offer in offers.offered}
    down = {node.name for node in context.snapshot.nodes if node.state is NodeState.DOWN}
    lent = (fragment for fragment in context.facts.fragments if fragment.goes_on and fragment.node not in down)
    return [fragment for fragment in lent if context.nodes.place_of(fragment) not in judged]


def _idle(offers: Offers) -> Iterator[str]:
    return (offer.name for offer in offers.offered if offer.holder is None)


def _next_in_line(offers: Offers, context: NodeContext) -> WhyNot:
    return nodes_of_next(offers.offered, context.shadow, context.snapshot, context.nodes, context.rooms)


def _blocking(_offers: Offers, context: NodeContext) -> WhyNot:
    return context.memory.blocked.why_not(context.snapshot)


def _counting_in_a_limit(_offers: Offers, context: NodeContext) -> WhyNot:
    return due_for_limits(context.memory.limits, context.facts, context.nodes)


def _all_for(why: str, offers: Offers) -> WhyNot:
    return dict.fromkeys((offer.name for offer in offers.offered), why) if why else {}


def _at_fault(_offers: Offers, context: NodeContext) -> WhyNot:
    return context.memory.suspects.withheld(context.now_s)


def _crowded_out(_offers: Offers, context: NodeContext) -> WhyNot:
    places = (fragment.place for fragment in context.crowded_out)
    return dict.fromkeys(places, "a job of the site's has begun there before it")


def _not_started_in_time(_offers: Offers, context: NodeContext) -> WhyNot:
    return dict.fromkeys(map(context.nodes.place_of, context.late), "Slurm does not start what it is lent for")


def _paused(offers: Offers, context: NodeContext) -> WhyNot:
    paused = context.facts.orders.paused
    return dict.fromkeys(_idle(offers), f"nothing more is lent: {paused}") if paused else {}


def _of_others(offers: Offers, context: NodeContext) -> WhyNot:
    competing = context.competing
    if competing is None or offers.held.keys() <= set(competing):
        return {}
    held = ((offer.name, offer.holder) for offer in offers.offered if offer.holder is not None)
    return {name: f"trainer {by} does not compete for nodes" for name, by in held if by not in competing}


def bars_of_slow(offers: Offers, context: NodeContext) -> Mapping[str, Bar]:
    """Trainer that takes long to leave → the offered nodes that are not known to be free for that long."""
    bars: dict[str, Bar] = {}
    for trainer, took_s in context.slow.items():
        needed_s = took_s + context.nodes.shortest_hole_s
        short = (offer for offer in offers.offered if not _is_free_for(offer, needed_s, context.now_s))
        why = (
            f"it takes {took_s:.0f} s to leave a node when it has to, longer than harm.limit, so it gets only "
            "nodes that nobody will want before a time that is known so far ahead: let it end on SIGTERM"
        )
        bars[trainer] = Bar(frozenset(offer.name for offer in short), why)
    return bars


def _slow_to_leave(offers: Offers, context: NodeContext) -> WhyNot:
    due = {}
    for offer in offers.offered if context.slow else ():
        took_s = context.slow.get(offer.holder or "")
        if took_s is not None and not _is_free_for(offer, took_s, context.now_s):
            due[offer.name] = f"trainer {offer.holder} takes {took_s:.0f} s to leave, longer than harm.limit"
    return due


def _is_free_for(offer: Place, seconds: float, now_s: float) -> bool:
    return offer.until_s is not None and offer.until_s - now_s > seconds


def _doubtful(offers: Offers, context: NodeContext) -> WhyNot:
    """Places of tasks that also have nodes in an unknown state: they are left as they are."""
    return {
        place: "its task has other nodes with which nothing is done"
        for places in cut_tasks(context.facts, offers, context.nodes).values()
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


NOT_COMPETING = NodeVerdict(
    "not competing", _of_others, "It is lent to a training that competes at the next look.", AppliesTo.LENT
)
"""The last verdict: it needs to know which trainers compete for what the others have left."""

_IDLE, _LENT = AppliesTo.IDLE, AppliesTo.LENT
_FOR_THAT_JOB = "It is for that job. If it does not start, the node is lent again."

NODE_VERDICTS: Sequence[NodeVerdict] = (
    NodeVerdict("not shown", _not_shown, "Slurm has no such node; its partition names it nevertheless."),
    NodeVerdict("excluded", _excluded, "Take it out of lend.exclude_nodes to have it lent."),
    NodeVerdict("powered down", _powered_down, "lend.spare_suspendable = false lets it be lent, powered up."),
    NodeVerdict("drained", _by_order("drained"), "'freetrain undrain {node}' ends that."),
    NodeVerdict("lent in parts", _lent_in_parts, "It is lent again, all of it, once its fragments have left."),
    NodeVerdict("used by the site", _used_by_the_site, "It can be lent once that job has ended."),
    NodeVerdict("not free", _not_free, "It can be lent once Slurm shows it as IDLE, without any other flag."),
    NodeVerdict("leaving", _between_two_states, "It can be lent again once its fragment has left."),
    NodeVerdict("full", _without_room, "It can be lent once a job on it has ended."),
    NodeVerdict("wanted soon", _wanted_soon, "It is for that. If it does not come, the node is lent again."),
    NodeVerdict("wanted now", _wanted_now, _FOR_THAT_JOB),
    NodeVerdict("partition down", _partition_down, "'scontrol update PartitionName=… State=UP' opens it.", _IDLE),
    NodeVerdict("short hole", _short, "Holes shorter than lend.shortest_hole are left alone.", _IDLE),
    NodeVerdict("just idle", _just_idle, "lend.idle_for says how long a node must have been idle.", _IDLE),
    NodeVerdict("at rest", _at_rest, "pace.cool_down says for how long it is then left alone.", _IDLE),
    NodeVerdict("reserve", _in_reserve, "lend.reserve_nodes and lend.most_nodes say how many are lent at most."),
    NodeVerdict("claimed", lambda _, context: context.claimed, _FOR_THAT_JOB),
    NodeVerdict("next in line", _next_in_line, "lend.next_in_line says how long before that it is kept free."),
    NodeVerdict("blocking", _blocking, "'freetrain config check' says what is wrong with Slurm's layout."),
    NodeVerdict("limit", _counting_in_a_limit, "It can be lent once that job has started."),
    NodeVerdict(
        "stopped",
        lambda offers, context: _all_for(context.facts.orders.stopped, offers),
        "Remove that file, or mend what 'freetrain config check' says.",
    ),
    NodeVerdict(
        "backing off",
        lambda offers, context: _all_for(context.backing_off, offers),
        "Lending goes on by itself; 'freetrain history' says what happened.",
    ),
    NodeVerdict("at fault", _at_fault, "It is tried again then; see what the failed programs wrote.", _IDLE),
    NodeVerdict("crowded out", _crowded_out, "It can be lent once that job has ended."),
    NodeVerdict("not started", _not_started_in_time, "It is tried again later; Slurm's log says why it waits."),
    NodeVerdict("paused", _paused, "'freetrain resume' ends the pause.", _IDLE),
    NodeVerdict("slow to leave", _slow_to_leave, "A program that ends on SIGTERM keeps such nodes.", _LENT),
    NodeVerdict("doubtful task", _doubtful, "It is judged again with all nodes of its task.", _LENT, freezes=True),
)
"""Reasons why a node is not lent; the first that names it is shown."""

_BY_NAME = {verdict.name: verdict for verdict in (*NODE_VERDICTS, NOT_COMPETING)}


def what_changes(verdict: str, node: str) -> str:
    """Sentence on what would change a verdict on a node; empty: there is no verdict of this name."""
    return _BY_NAME[verdict].ends_when.format(node=node) if verdict in _BY_NAME else ""
