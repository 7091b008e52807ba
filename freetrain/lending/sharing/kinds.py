"""Kinds of nodes: how the trainers of one question distinguish nodes. Pure.

A trainer distinguishes nodes by the features that its constraint and its speeds name and, if it asks for GPUs, by
the type of their GPUs: its nodes are alike in these, unless its tag says ``mixed``. Nodes of one kind are alike
for all trainers of a question, also in who may use them. If no trainer distinguishes any, all are of one kind
without a name.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from freetrain.core.cluster import Snapshot
from freetrain.core.node import Node, Nodes
from freetrain.core.place import Place
from freetrain.core.problem import Question
from freetrain.core.trainer import KindChoice, Trainer
from freetrain.lending.facts import Request


@dataclass(frozen=True, slots=True)
class _Kind:
    """What distinguishes nodes.

    Attributes:
        features: those that some trainer names.
        gpu_types: of their GPUs, if some trainer asks for any.
        open_to: which groups of trainers may use them.
    """

    features: frozenset[str]
    gpu_types: frozenset[str]
    open_to: tuple[bool, ...]

    @property
    def words(self) -> str:
        """The name that people read."""
        return "+".join(sorted(self.features | self.gpu_types)) or "other"


def ask_by_kind(
    nodes: Sequence[Place], groups: Sequence[tuple[Sequence[Request], Nodes]], snapshot: Snapshot
) -> Question:
    """Nodes with their kinds, and trainers with the kinds that each may have."""
    requests = [request for members, _ in groups for request in members]
    trainers = tuple(request.trainer for request in requests)
    named = frozenset().union(*map(named_features, requests))
    by_gpus = any(request.needs.gpus for request in requests)
    if len(groups) == 1 and not named and not by_gpus:
        return tuple(nodes), trainers
    kind_of = {
        node.name: _kind_of(snapshot.node.get(node.node), named, by_gpus, _open_to(node, groups)) for node in nodes
    }
    names = _names(kind_of.values())
    if len(names) == 1 and all(next(iter(names)).open_to) and not any(request.speeds for request in requests):
        return tuple(nodes), trainers
    choices = (
        _choices(request, number, names) for number, (members, _) in enumerate(groups) for request in members
    )
    return (
        tuple(_of_kind(node, names[kind_of[node.name]]) for node in nodes),
        tuple(_with_choices(trainer, each) for trainer, each in zip(trainers, choices, strict=True)),
    )


# Most nodes and trainers are the same from look to look, so their copies are kept.
@lru_cache(maxsize=65536)
def _of_kind(node: Place, kind: str) -> Place:
    return replace(node, kind=kind)


@lru_cache(maxsize=4096)
def _with_choices(trainer: Trainer, choices: tuple[KindChoice, ...]) -> Trainer:
    return replace(trainer, choices=choices)


def _open_to(node: Place, groups: Sequence[tuple[Sequence[Request], Nodes]]) -> tuple[bool, ...]:
    return tuple(node.node in usable for _, usable in groups)


def named_features(request: Request) -> frozenset[str]:
    """The features, and types of GPUs, that its owner names."""
    named = request.needs.named_features
    return named.union(name for name, _ in request.speeds) if request.speeds else named


def distinct_features(request: Request, features: frozenset[str], gpu_types: frozenset[str]) -> frozenset[str]:
    """Which of a node's features and GPU types a trainer distinguishes; its nodes are alike in these."""
    if request.mixed or request.trainer.independent:
        return frozenset()
    own = named_features(request)
    return (features & own) | (gpu_types if request.needs.gpus else gpu_types & own)


def speed_on(request: Request, features: frozenset[str], gpu_types: frozenset[str]) -> float:
    """The speed that its owner gives for such nodes; of several features that fit, the slowest."""
    return min((speed for name, speed in request.speeds if name in features | gpu_types), default=1.0)


def _kind_of(node: Node | None, named: frozenset[str], by_gpus: bool, open_to: tuple[bool, ...]) -> _Kind:
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
    """The kinds that a trainer may have, those together that it does not distinguish."""
    together: defaultdict[frozenset[str], list[_Kind]] = defaultdict(list)
    for kind in names:
        if kind.open_to[group]:
            together[distinct_features(request, kind.features, kind.gpu_types)].append(kind)
    return tuple(
        KindChoice(
            tuple(names[kind] for kind in kinds),
            min(speed_on(request, kind.features, kind.gpu_types) for kind in kinds),
        )
        for kinds in together.values()
    )
