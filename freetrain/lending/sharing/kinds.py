"""Kinds of nodes that the trainers of one question distinguish. Pure.

A trainer distinguishes nodes by the features that its constraint and its speeds name and, if it asks for GPUs, by
the type of their GPUs: its nodes are alike in these, unless its tag says ``mixed``. Nodes of one kind are alike
for all trainers of a question, also in who may use them. If no trainer distinguishes any, all are of one kind
without a name.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple

from freetrain.core.cluster import Snapshot
from freetrain.core.grouping import grouped
from freetrain.core.node import Node, Nodes
from freetrain.core.place import Place
from freetrain.core.problem import Question
from freetrain.core.trainer import KindChoice, Trainer
from freetrain.lending.facts import Request
from freetrain.lending.sharing.claimants import Tasks
from freetrain.lending.sharing.claims import Claimant


# A tuple, because a look makes one of each node.
class _Kind(NamedTuple):
    """Features and types of GPUs by which trainers distinguish nodes, and the trainers that may use them.

    Attributes:
        features: features of the nodes that some trainer names.
        gpu_types: types of their GPUs; in a question only those that some trainer distinguishes.
        open_to: whether each group of trainers may use them.
    """

    features: frozenset[str]
    gpu_types: frozenset[str]
    open_to: tuple[bool, ...] = ()

    @property
    def words(self) -> str:
        """The name that people read."""
        return "+".join(sorted(self.features | self.gpu_types)) or "other"

    def distinct_to(self, request: Request) -> frozenset[str]:
        """Features and types of GPUs that a trainer distinguishes; its nodes are alike in these."""
        if request.mixed or request.trainer.independent:
            return frozenset()
        own = _named_features(request)
        return (self.features & own) | (self.gpu_types if request.needs.gpus else self.gpu_types & own)

    def speed_of(self, request: Request) -> float:
        """The speed that its owner gives for such nodes; of several features that fit, the slowest."""
        there = self.features | self.gpu_types
        return min((speed for name, speed in request.speeds if name in there), default=1.0)


def ask_by_kind(
    nodes: Sequence[Place], groups: Sequence[tuple[Sequence[Request], Nodes]], snapshot: Snapshot
) -> Question:
    """Nodes with their kinds, and trainers with the kinds that each may have."""
    requests = [request for members, _ in groups for request in members]
    trainers = tuple(request.trainer for request in requests)
    named = frozenset().union(*map(_named_features, requests))
    by_gpus = any(request.needs.gpus for request in requests)
    if len(groups) == 1 and not named and not by_gpus:
        return tuple(nodes), trainers
    kind_of = {
        node.name: _kind_of(
            snapshot.node.get(node.node), named, by_gpus, tuple(node.node in usable for _, usable in groups)
        )
        for node in nodes
    }
    names = _names(kind_of.values())
    if len(names) == 1 and all(next(iter(names)).open_to) and not any(request.speeds for request in requests):
        return tuple(nodes), trainers
    choices = (
        _choices(request, number, names) for number, (members, _) in enumerate(groups) for request in members
    )
    return (
        tuple(node.having(kind=names[kind_of[node.name]]) for node in nodes),
        tuple(_with_choices(trainer, each) for trainer, each in zip(trainers, choices, strict=True)),
    )


# Most trainers are the same from look to look, so their copies are kept.
@lru_cache(maxsize=4096)
def _with_choices(trainer: Trainer, choices: tuple[KindChoice, ...]) -> Trainer:
    return replace(trainer, choices=choices)


def _named_features(request: Request) -> frozenset[str]:
    """The features, and types of GPUs, that its owner names."""
    named = request.needs.named_features
    return named.union(name for name, _ in request.speeds) if request.speeds else named


def _kind_of(node: Node | None, named: frozenset[str], by_gpus: bool, open_to: tuple[bool, ...] = ()) -> _Kind:
    if node is None:
        return _Kind(frozenset(), frozenset(), open_to)
    types = node.gpu_types
    return _Kind(node.features & named, types if by_gpus else types & named, open_to)


def _names(kinds: Iterable[_Kind]) -> Mapping[_Kind, str]:
    """Kind → its name, numbered if several have the same words."""
    names: dict[_Kind, str] = {}
    of_words: defaultdict[str, int] = defaultdict(int)
    for kind in sorted(set(kinds), key=lambda kind: (kind.words, kind.open_to)):
        of_words[kind.words] += 1
        number = of_words[kind.words]
        names[kind] = kind.words if number == 1 else f"{kind.words} {number}"
    return names


def _choices(request: Request, group: int, names: Mapping[_Kind, str]) -> tuple[KindChoice, ...]:
    usable = (kind for kind in names if kind.open_to[group])
    together = grouped((kind.distinct_to(request), kind) for kind in usable)
    return tuple(
        KindChoice(tuple(names[kind] for kind in kinds), min(kind.speed_of(request) for kind in kinds))
        for kinds in together.values()
    )


@dataclass(frozen=True, slots=True)
class _KindGroup:
    """Nodes that are alike to all trainers."""

    kind: _Kind
    names: Nodes
    room: float


_GroupChoice = tuple[_KindGroup, ...]
"""Groups from which a trainer may have nodes together."""


def keep_to_kinds(
    claimants: Sequence[Claimant],
    competing: Iterable[Request],
    offered: Sequence[Place],
    snapshot: Snapshot,
    tasks: Tasks,
) -> list[Claimant]:
    """The claimants, who may use nodes of no more kinds than they have trainers that can use them.

    A trainer uses nodes of one kind only: of a deal of several kinds it would leave the rest unused.

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
    held = grouped((place.holder, place.node) for place in offered if place.holder is not None)
    choosing = [_Choosing(claimant, requests, groups, held) for claimant in claimants]
    wanted: dict[_KindGroup, float] = defaultdict(float)
    for claimant in choosing:
        claimant.want_what_is_settled(wanted)
    for claimant in choosing:
        claimant.choose(wanted)
    sets: dict[tuple[int, frozenset[_GroupChoice]], Nodes] = {}
    return [claimant.kept(sets) for claimant in choosing]


def _groups(
    offered: Iterable[Place], requests: Iterable[Request], snapshot: Snapshot, tasks: Tasks
) -> list[_KindGroup]:
    named = frozenset().union(*map(_named_features, requests))
    there = (snapshot.node[name] for name in {offer.node for offer in offered} & snapshot.node.keys())
    alike = grouped((_kind_of(node, named, by_gpus=True), node.name) for node in there)
    # In order, because of equal choices the first one is made.
    order = sorted(alike, key=lambda kind: (sorted(kind.features), sorted(kind.gpu_types)))
    return [_KindGroup(kind, frozenset(alike[kind]), _room(alike[kind], snapshot, tasks)) for kind in order]


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
        groups: Sequence[_KindGroup],
        held: Mapping[str, Sequence[str]],
    ) -> None:
        most = {want.trainer: want.max_nodes * claimant.worth for want in claimant.wants}
        self._claimant = claimant
        self._requests = [requests[trainer] for trainer in most]
        self._choices = self._find_choices(groups)
        self._held = Nodes().union(*(held[trainer] for trainer in most if trainer in held))
        self._made = {choice for choice in self._choices if not self._held.isdisjoint(_names_of(choice))}
        self._settled = sum(want for trainer, want in most.items() if trainer in held)
        self._free = [want for trainer, want in most.items() if trainer not in held]

    def _find_choices(self, groups: Sequence[_KindGroup]) -> list[_GroupChoice]:
        """Groups that none of its trainers distinguishes are one choice; all are if one trainer may mix them."""
        by_words: defaultdict[frozenset[str], list[_KindGroup]] = defaultdict(list)
        for group in groups:
            if not group.names.isdisjoint(self._claimant.eligible):
                words = [group.kind.distinct_to(request) for request in self._requests]
                by_words[frozenset().union(*words) if all(words) else frozenset()].append(group)
        return [tuple(alike) for alike in by_words.values()]

    def want_what_is_settled(self, wanted: dict[_KindGroup, float]) -> None:
        """Add what it wants of kinds that need no choice: those that it has; all, if it has trainers for all."""
        if len(self._choices) <= len(self._made) + len(self._free):
            self._made = set(self._choices)
            self._settled, self._free = self._settled + sum(self._free), []
        _want(wanted, self._made, self._settled)

    def choose(self, wanted: dict[_KindGroup, float]) -> None:
        """Choose a kind for each trainer that has no nodes."""
        for want in self._free:
            best = max(self._choices, key=lambda choice: self._gets(choice, want, wanted))
            self._made.add(best)
            _want(wanted, [best], want)

    def _gets(self, choice: _GroupChoice, want: float, wanted: Mapping[_KindGroup, float]) -> float:
        """Number of nodes that a trainer would get of the choice, times its speed there."""
        room, others = sum(group.room for group in choice), sum(wanted[group] for group in choice)
        speed = min(group.kind.speed_of(request) for request in self._requests for group in choice)
        want = min(want, room)
        return speed * want * min(1.0, room / (others + want)) if want else 0.0

    def kept(self, sets: dict[tuple[int, frozenset[_GroupChoice]], Nodes]) -> Claimant:
        """The claimant, limited to what it has and what it has chosen; equal sets of nodes are one object."""
        claimant, made = self._claimant, frozenset(self._made)
        if len(made) == len(self._choices):
            return claimant
        key = id(claimant.eligible), made
        if key not in sets:
            sets[key] = claimant.eligible.intersection(Nodes().union(*map(_names_of, made)))
        beside = self._held - sets[key]
        return replace(claimant, eligible=sets[key] | beside if beside else sets[key])


def _names_of(choice: _GroupChoice) -> Nodes:
    return Nodes().union(*(group.names for group in choice))


def _want(wanted: dict[_KindGroup, float], choices: Iterable[_GroupChoice], amount: float) -> None:
    """Add what a claimant wants of these, in proportion to their rooms and at most all of them."""
    groups = [group for choice in choices for group in choice]
    room = sum(group.room for group in groups)
    for group in groups if room else ():
        wanted[group] += min(amount, room) * group.room / room
