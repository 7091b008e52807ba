"""Allotment: the offered nodes that each claimant gets at a look, and the results after the decisions."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import chain
from math import inf

import numpy as np

from freetrain.core.aim import read_aim
from freetrain.core.amounts import Amount
from freetrain.core.classes import NodeClass
from freetrain.core.data_wait import NewPart, SharedNode, WaitProfile
from freetrain.core.deadlines import deadline_rates_of
from freetrain.core.fragment import Fragment
from freetrain.core.grouping import grouped
from freetrain.core.needs import has_gpus
from freetrain.core.node import Nodes
from freetrain.core.place import Place, Traits, node_of
from freetrain.core.plan import Release
from freetrain.core.power import with_watts
from freetrain.core.terms import terms_of, with_changes
from freetrain.core.trainer import Trainer
from freetrain.core.value import distinct_tables
from freetrain.lending.facts import Facts, Request
from freetrain.lending.rooms import Rooms
from freetrain.lending.rules import Rules
from freetrain.lending.sharing.claimants import Tasks, capped_beside, claimants_of, shares_of, with_settled
from freetrain.lending.sharing.claims import Claimant, Deal, Shares
from freetrain.lending.sharing.dealing import deal
from freetrain.lending.sharing.kinds import keep_to_kinds

# How long a claimant that declined nodes is not offered more than it took, unless they are left over.
_DECLINED_S = 600.0


@dataclass(frozen=True, slots=True)
class Declined:
    """Number of places that a claimant took when it declined some of its nodes.

    Attributes:
        trainers: its trainers then, with their minimum sizes; with others this does not count.
        until_s: time until which this counts, UTC epoch seconds.
    """

    trainers: tuple[tuple[str, int], ...]
    took: int
    until_s: float


ClaimantGroup = tuple[Claimant, ...]
"""Claimants whose nodes are divided among them in one decision."""

DeclinedNodes = Mapping[Hashable, Declined]
"""Claimant → the number that it took when it declined some of its nodes."""


@dataclass(frozen=True)
class Served:
    """Result of a look for one claimant.

    Attributes:
        sizes: trainer → number of nodes that it was given; its own, and its owner's others in the same decision.
        dealt: number of nodes that the policy could give them.
        caps: limit that counts its nodes → the largest number of nodes.
        has_rivals: whether other claimants were dealt nodes that it may use.
    """

    claimant: Claimant
    sizes: Mapping[str, int]
    dealt: int
    caps: Mapping[str, int]
    has_rivals: bool = False

    @cached_property
    def lent_to(self) -> str:
        """The trainers that have the nodes, as the end of a sentence; empty: none has any."""
        others = [trainer for trainer, size in self.sizes.items() if size]
        if not others:
            return ""
        shown = ", ".join(others[:5]) + (f" and {len(others) - 5} more" if len(others) > 5 else "")
        return f", lent to {shown}"


@dataclass(frozen=True)
class Allotment:
    """The claimants, with the places that each was dealt.

    Attributes:
        dealt: the places of each claimant, and those that change hands.
        offered: name → place, new parts of nodes included.
        declined: claimants that did not take all of their nodes lately.
    """

    claimants: tuple[Claimant, ...] = ()
    shares: Shares = field(default_factory=Shares)
    dealt: Deal = field(default_factory=lambda: Deal({}, {}))
    offered: Mapping[str, Place] = field(default_factory=dict)
    declined: DeclinedNodes = field(default_factory=dict)

    def __iter__(self) -> Iterator[tuple[ClaimantGroup, tuple[Place, ...]]]:
        """The questions: claimants of one decision, with their places; what others give up has no holder."""
        for group in self.together:
            if names := [name for claimant in group for name in self.dealt.places[claimant.key]]:
                yield group, _as_seen_by(group, [self.offered[name] for name in names])

    @cached_property
    def together(self) -> Sequence[ClaimantGroup]:
        """The claimants, grouped by decision: those of one owner that may use some of the same nodes."""
        found: list[ClaimantGroup] = []
        for claimant in self.claimants:
            joined = [group for group in found if any(map(partial(_compete, claimant), group))]
            others = [group for group in found if group not in joined]
            found = [*others, (*chain.from_iterable(joined), claimant)]
        order = {claimant.key: number for number, claimant in enumerate(self.claimants)}
        return sorted(found, key=lambda group: order[group[0].key])

    @property
    def releases(self) -> list[Release]:
        """Nodes that must be given up before anything is decided."""
        path_of = {claimant.key: claimant.path for claimant in self.claimants}
        own = {
            claimant.key: Nodes().union(*(member.trainers for member in group))
            for group in self.together
            for claimant in group
        }
        names: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
        for name, key in sorted(self.dealt.leaving.items()):
            if self.offered[name].holder in own.get(key, ()):  # it stays within the decision, which settles it
                continue
            path = path_of.get(key, ())
            why = "it cannot use them" if key is None else f"the share of {path[-1] if path else 'others'}"
            names[str(self.offered[name].holder), why].append(name)
        return [Release(tuple(nodes), why, trainer) for (trainer, why), nodes in names.items()]

    def declined_after(self, sizes: Mapping[str, int], now_s: float) -> DeclinedNodes:
        """The claimants that declined nodes, after all decisions."""
        declined = dict(self.declined)
        for group in self.together:
            dealt = {claimant.key: len(self.dealt.places[claimant.key]) for claimant in group}
            took = {claimant.key: sum(sizes.get(want.trainer, 0) for want in claimant.wants) for claimant in group}
            if sum(took.values()) < sum(dealt.values()):
                declined |= {
                    claimant.key: Declined(_trainers_of(claimant), took[claimant.key], now_s + _DECLINED_S)
                    for claimant in group
                    if took[claimant.key] < dealt[claimant.key]
                }
        return declined

    def served(self, sizes: Mapping[str, int]) -> Iterator[Served]:
        """The result for each claimant."""
        for group in self.together:
            keys = {claimant.key for claimant in group}
            dealt = sum(len(self.dealt.places[key]) for key in keys)
            own = {want.trainer: sizes.get(want.trainer, 0) for claimant in group for want in claimant.wants}
            others = (names for key, names in self.dealt.places.items() if key not in keys)
            theirs = set(map(node_of, chain.from_iterable(others)))
            for claimant in group:
                caps = {name: self.shares.caps[name] for name in claimant.capped_by}
                has_rivals = not claimant.eligible.isdisjoint(theirs)
                yield Served(claimant, own, dealt, caps, has_rivals)


def allot(
    facts: Facts,
    offered: Sequence[Place],
    competing: Sequence[Request],
    declined: DeclinedNodes,
    rules: Rules,
    tasks: Tasks,
    left_alone: Sequence[Fragment] = (),
) -> Allotment:
    """Deal the offered places; fragments that are left alone count in the limits.

    A claimant that declined nodes is dealt what it took, and more only from what the others leave. Otherwise its
    share would lie idle at each look, although others could use it.
    """
    now_s, sharing = facts.snapshot.time_s, rules.sharing
    # Among nodes that stay equally long, deals go in this order: trainers without GPUs take nodes with GPUs last.
    gpus = {node.name for node in facts.snapshot.nodes if node.gres and has_gpus(node)}
    offered = sorted(offered, key=lambda place: place.node in gpus) if gpus else list(offered)
    demand = _demand(facts, offered, [request.trainer for request in competing], rules, tasks)
    claimants = claimants_of(competing, demand, offered, sharing, tasks)
    claimants = keep_to_kinds(claimants, competing, offered, facts.snapshot, tasks)
    claimants = with_settled(claimants, facts, offered, rules.nodes)
    partition_nodes = len(rules.nodes.queue.among(facts.snapshot.partitions).nodes)
    beside = capped_beside(left_alone, facts.request, sharing)
    shares = shares_of(claimants, facts.used_hours, partition_nodes, sharing, beside)
    declined = _still_valid(declined, claimants, now_s)
    # One claimant alone takes nodes from nobody, so it may change its mind at each look.
    most = {key: answer.took for key, answer in declined.items()} if len(claimants) > 1 else {}

    def dealt_with(spare: int) -> Deal:
        bounded = [replace(claimant, most=most.get(claimant.key, inf) + spare) for claimant in claimants]
        return deal(offered, bounded, shares, tasks.rooms, sharing.topology)

    dealt = dealt_with(0)
    # Of parts of nodes as many can be dealt as all claimants would take.
    places = len(offered) if tasks.rooms is None else sum(claimant.places for claimant in claimants)
    spare = places - sum(map(len, dealt.places.values()))
    if most and spare > 0:
        dealt = dealt_with(spare)
    by_name = {place.name: place for place in (*offered, *dealt.new)}
    return Allotment(tuple(claimants), shares, dealt, by_name, declined)


def _demand(
    facts: Facts, offered: Sequence[Place], trainers: Sequence[Trainer], rules: Rules, tasks: Tasks
) -> Mapping[str, int]:
    """Trainer → the smallest size at which it is worth most over the horizon; 0: it would not start.

    The price of electricity is that of the node that takes least; parts of nodes have none.
    """
    if not trainers:
        return {}
    factor, now_s = read_aim(rules.objective).deadlines, facts.snapshot.time_s
    rates = deadline_rates_of(trainers, facts.done_samples, now_s, factor)
    terms = with_changes(terms_of(tuple(trainers), rules.objective), rules.changes)
    terms = rates.on(terms, range(len(trainers)), np.ones(len(trainers)))
    whole = offered if tasks.rooms is None else ()
    watts = [place.traits.watts for place in with_watts(whole, facts.snapshot, rules.draw, rules.objective)]
    held = Counter(place.holder for place in offered if place.holder is not None)
    now = np.array([held[trainer.id] for trainer in trainers], dtype=np.int64)
    every_node = NodeClass(rules.horizon_s, False, {}, Traits(watts=min(watts, default=0.0)))
    tables, row = distinct_tables(terms, now, every_node)
    best = tables.argmax(axis=1)[row]
    return dict(zip((trainer.id for trainer in trainers), best.tolist(), strict=True))


def _still_valid(declined: DeclinedNodes, claimants: Iterable[Claimant], now_s: float) -> DeclinedNodes:
    """The claimants that declined nodes lately and still have the same trainers."""
    trainers = {claimant.key: _trainers_of(claimant) for claimant in claimants}
    return {
        key: answer
        for key, answer in declined.items()
        if answer.until_s > now_s and trainers.get(key) == answer.trainers
    }


def _trainers_of(claimant: Claimant) -> tuple[tuple[str, int], ...]:
    return tuple((want.trainer, want.min_nodes) for want in claimant.wants)


def _compete(claimant: Claimant, other: Claimant) -> bool:
    is_one_owner = claimant.decided_with is not None and claimant.decided_with == other.decided_with
    return is_one_owner and not claimant.eligible.isdisjoint(other.eligible)


def _as_seen_by(claimants: ClaimantGroup, nodes: Sequence[Place]) -> tuple[Place, ...]:
    own = {None, *chain.from_iterable(claimant.trainers for claimant in claimants)}
    if own.issuperset([node.holder for node in nodes]):
        return tuple(nodes)
    return tuple(node if node.holder in own else replace(node, holder=None) for node in nodes)


def shared_nodes(
    lent: Mapping[str, Iterable[str]], facts: Facts, rooms: Rooms | None, allotment: Allotment
) -> Iterator[SharedNode]:
    """The nodes of which new parts are lent; none if nodes are lent whole."""
    if rooms is None:
        return
    requests = (request for request in facts.requests if request.needs.in_part)
    new = grouped(
        (node_of(place), _new_part(request, place, facts))
        for request in requests
        for place in lent.get(request.id, ())
    )
    dealt = grouped((place.node, amount) for place, amount in allotment.dealt.new.items())
    for name, its_parts in new.items():
        if room := rooms.get(name):
            spare = room.free.without(sum(dealt[name], Amount()))
            threads = facts.snapshot.node[name].threads_per_core
            yield SharedNode(name, spare, room.free.gpus, threads, tuple(its_parts))


def _new_part(request: Request, place: str, facts: Facts) -> NewPart:
    asks = request.needs.amount_on(facts.snapshot.node[node_of(place)])
    profile = facts.data_waits.get(request.id, WaitProfile())
    waits = profile.share_with(asks.cpus, asks.memory_mb)
    cache_mb = request.cache_mb if request.needs.takes_memory else 0
    return NewPart(place, request.id, asks, waits, cache_mb, profile)
