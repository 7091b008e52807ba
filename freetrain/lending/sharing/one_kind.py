"""Which kinds of nodes each claimant is dealt, since a trainer uses nodes of one kind only. Pure.

A claimant that was dealt nodes of several kinds would use those of one kind, and no other could have the rest. So
before the deal each claimant is limited to as many kinds as its trainers can use.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

from freetrain.core.cluster import Snapshot
from freetrain.core.node import Nodes
from freetrain.core.place import Place
from freetrain.lending.facts import Request
from freetrain.lending.sharing.claims import Claimant
from freetrain.lending.sharing.kinds import distinct_features, named_features, speed_on
from freetrain.lending.sharing.tasks import Tasks


@dataclass(frozen=True, slots=True)
class _Group:
    """Nodes that are alike to all trainers.

    Attributes:
        features: those that some trainer names.
        gpu_types: of their GPUs.
        names: the nodes.
        room: what is offered of them, in whole nodes.
    """

    features: frozenset[str]
    gpu_types: frozenset[str]
    names: Nodes
    room: float


_Choice = tuple[_Group, ...]
"""Groups from which a trainer may have nodes together."""


def keep_to_kinds(
    claimants: Sequence[Claimant],
    competing: Iterable[Request],
    offered: Sequence[Place],
    snapshot: Snapshot,
    tasks: Tasks,
) -> list[Claimant]:
    """The claimants, who may use nodes of no more kinds than they have trainers that can use them.

    1. A claimant that is alone, or that may have nodes of different kinds at once, keeps all its choices.
    2. A trainer that has nodes stays with their kind.
    3. The others choose in turn the kind of which they would get most, if each kind were shared in proportion to
       what is wanted of it, weighted by how fast they are there.
    """
    requests = {request.id: request for request in competing}
    together = {claimant.decided_with for claimant in claimants}
    is_one_question = len(claimants) == 1 or (len(together) == 1 and None not in together)
    groups = [] if is_one_question else _groups(offered, requests.values(), snapshot, tasks)
    if len(groups) < 2:
        return list(claimants)
    held: defaultdict[str, set[str]] = defaultdict(set)
    for place in offered:
        if place.holder is not None:
            held[place.holder].add(place.node)
    choosing = [_Choosing(claimant, requests, groups, held) for claimant in claimants]
    wanted: dict[_Group, float] = defaultdict(float)
    for claimant in choosing:
        claimant.want_what_is_settled(wanted)
    for claimant in choosing:
        claimant.choose(wanted)
    sets: dict[tuple[int, frozenset[_Choice]], Nodes] = {}
    return [claimant.kept(sets) for claimant in choosing]


def _groups(
    offered: Iterable[Place], requests: Iterable[Request], snapshot: Snapshot, tasks: Tasks
) -> list[_Group]:
    named = frozenset().union(*map(named_features, requests))
    names: defaultdict[tuple[frozenset[str], frozenset[str]], set[str]] = defaultdict(set)
    for name in {offer.node for offer in offered}:
        node = snapshot.node.get(name)
        if node is not None:
            names[node.features & named, node.gpu_types].add(name)
    # In order, because of equal choices the first one is made.
    order = sorted(names, key=lambda words: (sorted(words[0]), sorted(words[1])))
    return [_Group(*words, frozenset(names[words]), _room(names[words], snapshot, tasks)) for words in order]


def _room(names: Collection[str], snapshot: Snapshot, tasks: Tasks) -> float:
    if tasks.rooms is None:
        return float(len(names))
    return sum(tasks.capacity[name].part_of(snapshot.node[name].total) for name in names if name in tasks.capacity)


class _Choosing:
    """A claimant, the choices of kinds that it has, and those that it has made."""

    def __init__(
        self,
        claimant: Claimant,
        requests: Mapping[str, Request],
        groups: Sequence[_Group],
        held: Mapping[str, AbstractSet[str]],
    ) -> None:
        most = {want.trainer: want.max_nodes * claimant.worth for want in claimant.wants}
        self._claimant = claimant
        self._requests = [requests[trainer] for trainer in most]
        self._choices = self._find_choices(groups)
        self._held = Nodes().union(*(held[trainer] for trainer in most if trainer in held))
        self._made = {choice for choice in self._choices if not self._held.isdisjoint(_names_of(choice))}
        self._settled = sum(want for trainer, want in most.items() if trainer in held)
        self._free = [want for trainer, want in most.items() if trainer not in held]

    def _find_choices(self, groups: Sequence[_Group]) -> list[_Choice]:
        """Groups that none of its trainers distinguishes are one choice; all are if one trainer may mix them."""
        by_words: defaultdict[frozenset[str], list[_Group]] = defaultdict(list)
        for group in groups:
            if not group.names.isdisjoint(self._claimant.eligible):
                words = [distinct_features(request, group.features, group.gpu_types) for request in self._requests]
                by_words[frozenset().union(*words) if all(words) else frozenset()].append(group)
        return [tuple(alike) for alike in by_words.values()]

    @property
    def _has_all(self) -> bool:
        """Whether it has a trainer for each of its choices."""
        return len(self._choices) <= len(self._made) + len(self._free)

    def want_what_is_settled(self, wanted: dict[_Group, float]) -> None:
        """Add what it wants of kinds that need no choice: those that it has; all, if it has trainers for all."""
        if self._has_all:
            self._made = set(self._choices)
            self._settled, self._free = self._settled + sum(self._free), []
        _want(wanted, self._made, self._settled)

    def choose(self, wanted: dict[_Group, float]) -> None:
        """Choose a kind for each trainer that has no nodes."""
        for want in self._free:
            best = max(self._choices, key=lambda choice: self._gets(choice, want, wanted))
            self._made.add(best)
            _want(wanted, [best], want)

    def _gets(self, choice: _Choice, want: float, wanted: Mapping[_Group, float]) -> float:
        """How much a trainer would get of the choice, times its speed there."""
        room, others = sum(group.room for group in choice), sum(wanted[group] for group in choice)
        speed = min(
            speed_on(request, group.features, group.gpu_types) for request in self._requests for group in choice
        )
        want = min(want, room)
        return speed * want * min(1.0, room / (others + want)) if want else 0.0

    def kept(self, sets: dict[tuple[int, frozenset[_Choice]], Nodes]) -> Claimant:
        """The claimant, limited to what it has and what it has chosen; equal sets of nodes are one object."""
        claimant, made = self._claimant, frozenset(self._made)
        if len(made) == len(self._choices):
            return claimant
        key = id(claimant.eligible), made
        if key not in sets:
            sets[key] = claimant.eligible.intersection(Nodes().union(*map(_names_of, made)))
        beside = self._held - sets[key]
        return replace(claimant, eligible=sets[key] | beside if beside else sets[key])


def _names_of(choice: _Choice) -> Nodes:
    return Nodes().union(*(group.names for group in choice))


def _want(wanted: dict[_Group, float], choices: Iterable[_Choice], amount: float) -> None:
    """Add what a claimant wants of these, in proportion to their rooms and at most all of them."""
    groups = [group for choice in choices for group in choice]
    room = sum(group.room for group in groups)
    for group in groups if room else ():
        wanted[group] += min(amount, room) * group.room / room
