"""Node classes, and the choices that trainers have among them.

Nodes of one kind that are expected to be taken back together are interchangeable: they are a class.

All nodes of a trainer belong to one of its choices, on which kinds of nodes it may be. Trainers do not migrate, so
a trainer that has nodes has no other choice left than that to which they belong; if they belong to several, as
after a change of what it may use, it may keep some of them or all, and gets no other.

A moldable trainer ends when the first of its nodes leaves. So of each of these it has a choice for each time at
which nodes leave: any nodes that stay so long, all of which it has just so long. Once it has nodes it gets no
other.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from freetrain.core.deadlines import DeadlineRates
from freetrain.core.place import NO_TRAITS, Place, Traits
from freetrain.core.terms import Sizes, Table, Terms, read_only
from freetrain.core.trainer import KindChoice, Trainer

_HOLDER = attrgetter("holder")
_GROUP = attrgetter("until_s", "holder", "traits")
Mask = NDArray[np.bool_]
EACH_BY_ITSELF = -1
"""In place of a class with which all nodes of a trainer leave: there is none."""


class AlikeNodes(Sequence[Place]):
    """Nodes that no trainer tells apart and of which no end is known: names by their holder (None: free)."""

    def __init__(self, names: Mapping[str | None, Sequence[str]]) -> None:
        self.names = names

    def __len__(self) -> int:
        return sum(map(len, self.names.values()))

    def __iter__(self) -> Iterator[Place]:
        return (Place(name, holder=holder) for holder, names in self.names.items() for name in names)

    def __getitem__(self, at: Any) -> Any:
        return tuple(self)[at]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AlikeNodes | tuple) and tuple(self) == tuple(other)


def holders_of(nodes: Sequence[Place]) -> set[str | None]:
    """The holders of any of these nodes; None: some are free."""
    return set(nodes.names) if isinstance(nodes, AlikeNodes) else set(map(_HOLDER, nodes))


@dataclass(frozen=True)
class NodeClass:
    """Nodes that are expected to be taken back at the same time, and have the same traits.

    Attributes:
        life_s: seconds that they are expected to stay, at most the horizon.
        taken_back: whether they leave before the horizon ends (and cost their holders a loss).
        names: holder (None: free) → names of the nodes it holds, in the problem's order.
    """

    life_s: float
    taken_back: bool
    names: Mapping[str | None, Sequence[str]]
    traits: Traits = NO_TRAITS

    @cached_property
    def count(self) -> int:
        """Number of nodes in the class."""
        return sum(map(len, self.names.values()))


def group_nodes(nodes: Sequence[Place], now_s: float, horizon_s: float) -> tuple[NodeClass, ...]:
    """Put nodes of the same traits together by the time they are expected to stay, longest first, then by traits.

    Those already due are left out.
    """
    if isinstance(nodes, AlikeNodes):
        return (NodeClass(horizon_s, False, nodes.names),) if nodes else ()
    groups: defaultdict[tuple[float | None, str | None, Traits], list[str]] = defaultdict(list)
    for node in nodes:
        # Few groups of many nodes: lives are computed for each group, not for each node.
        groups[_GROUP(node)].append(node.name)
    classes: defaultdict[tuple[float, Traits], defaultdict[str | None, list[str]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for (end_s, holder, traits), names in groups.items():
        life_s = horizon_s if end_s is None else min(end_s - now_s, horizon_s)
        # Negative, so that sorting puts the longest-lived class first.
        classes[-life_s, traits][holder] += names
    return tuple(
        NodeClass(-minus_s, -minus_s < horizon_s, classes[minus_s, traits], traits)
        for minus_s, traits in sorted(classes)
        if minus_s < 0
    )


def first_of_life(classes: Sequence[NodeClass]) -> NDArray[np.int64]:
    """For each class the position of the first one that lives as long, shape (classes,)."""
    lives_s = np.array([node_class.life_s for node_class in classes])
    return np.searchsorted(-lives_s, -lives_s).astype(np.int64)


def last_of_life(first_of_life: NDArray[np.int64]) -> NDArray[np.int64]:
    """The last class that leaves at each time at which nodes leave, shape (times,)."""
    return np.flatnonzero(np.diff(first_of_life, append=len(first_of_life)))


@dataclass(frozen=True, slots=True)
class Choices:
    """The choices of all trainers, those of each one after the other; row r is one of them.

    Attributes:
        trainer: the trainer of each, shape (choices,).
        terms: its worth and costs there, a row for each choice.
        may_join: whether it may get new nodes of each class, shape (choices, classes).
        covers: classes of which its nodes may be, those of held nodes included, shape (choices, classes).
        last: the class with whose end all of its nodes are of no more use, shape (choices,); -1: there is none.
        is_free: whether every trainer may have any nodes together, at the same speed.
    """

    trainer: Sizes
    terms: Terms
    may_join: Mask
    covers: Mask
    last: Sizes
    is_free: bool

    def made_by(self, counts: NDArray[np.int64]) -> Sizes:
        """The choice of each trainer that has these nodes of each class, shape (trainers,); -1: none."""
        if self.is_free:
            return self.trainer
        made = np.full(len(counts), -1, dtype=np.int64)
        # A choice fits if it covers every class of which the trainer has nodes.
        fitting = np.flatnonzero(((counts[self.trainer] > 0) <= self.covers).all(axis=1))[::-1]
        # Backwards, as numpy keeps the last of several assignments: the first choice that fits stays.
        made[self.trainer[fitting]] = fitting
        return made

    def best_of_each(self, by_choice: Table) -> Table:
        """The largest numbers of each trainer, shape (trainers, sizes), of rows for its choices."""
        begin = np.flatnonzero(np.diff(self.trainer, prepend=-1))
        # The usual case, in which a large table need not be copied: one choice each.
        return by_choice if len(begin) == len(by_choice) else np.maximum.reduceat(by_choice, begin)


def choices_of(
    trainers: Sequence[Trainer],
    terms: Terms,
    classes: Sequence[NodeClass],
    held: NDArray[np.int64],
    rates: DeadlineRates,
) -> Choices:
    """The choices that are left, by terms at speed 1 and what each trainer holds, shape (trainers, classes)."""
    kinds = [node_class.traits.kind for node_class in classes]
    # Moldable trainers tell nodes of different ends apart, and stay with those that they have.
    tells_ends = terms.moldable.any() and (held.shape[1] > 1 or held[terms.moldable].any())
    if len(set(kinds)) <= 1 and not terms.names_kinds and not tells_ends:
        every = read_only(np.ones(held.shape, dtype=bool))
        owner = read_only(np.arange(len(trainers)))
        alone = read_only(np.full(len(trainers), EACH_BY_ITSELF))
        return Choices(owner, rates.on(terms, owner.tolist(), np.ones(len(owner))), every, every, alone, True)
    rows, speeds, joins, lasts = [], [], [], []
    ends = last_of_life(first_of_life(classes)).tolist()
    for row, trainer in enumerate(trainers):
        has = held[row] > 0
        for speed, mask in _choices(trainer, kinds, has):
            for classes_left, last in _until(mask, has, ends) if trainer.moldable else ((mask, EACH_BY_ITSELF),):
                rows.append(row)
                speeds.append(speed)
                joins.append(classes_left)
                lasts.append(last)
    owner = read_only(np.array(rows, dtype=np.int64))
    may_join = read_only(np.array(joins, dtype=bool).reshape(len(rows), len(kinds)))
    own, speed_of = terms.of(owner), np.array(speeds)
    at_speed = own.with_worth(own.worth * speed_of[:, None], speed_of)
    return Choices(
        owner,
        rates.on(at_speed, rows, speeds),
        may_join,
        read_only(may_join | (held[owner] > 0)),
        read_only(np.array(lasts, dtype=np.int64)),
        bool(may_join.all()) and all(speed == 1.0 for speed in speeds) and len(rows) == len(trainers),
    )


def _choices(trainer: Trainer, kinds: Sequence[str], has: Mask) -> Iterator[tuple[float, Mask]]:
    known = trainer.choices
    if known is None:
        known = tuple(KindChoice((kind,)) for kind in dict.fromkeys(kinds))
    masks = [(choice.speed, np.isin(kinds, choice.kinds)) for choice in known]
    there = [(speed, mask) for speed, mask in masks if mask.any()]
    nowhere = np.zeros(len(kinds), dtype=bool)
    if not has.any():
        yield from there or [(1.0, nowhere)]
        return
    own = [(speed, mask) for speed, mask in there if mask[has].any()]
    # A trainer that has nodes stays with the choice to which all of them belong.
    if len(own) == 1 and own[0][1][has].all():
        yield own[0]
    else:  # its nodes wait for each other
        yield trainer.speed_on([kind for kind, some in zip(kinds, has, strict=True) if some]), nowhere


def _until(mask: Mask, has: Mask, ends: Sequence[int]) -> Iterator[tuple[Mask, int]]:
    """The classes of which a moldable trainer may get nodes, and the last of them, for each time it may end."""
    if has.any():
        yield np.zeros_like(mask), int(np.flatnonzero(has)[-1])
        return
    if not mask.any():
        yield mask, EACH_BY_ITSELF
    first = 0
    for last in ends:
        if mask[first : last + 1].any():
            yield mask & (np.arange(len(mask)) <= last), last
        first = last + 1
