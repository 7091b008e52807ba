"""Choices: on which kinds of nodes each trainer of a problem may be, and what it is worth there.

All nodes of a trainer belong to one of its choices. Nobody migrates, so who has nodes has no other choice left
than that to which they belong; if they belong to several, as after a change of what it may use, it may keep some
of them or all, and gets no other.

A moldable trainer ends when the first of its nodes leaves. So of each of these it has one for each time at which
nodes leave: any nodes that stay so long, all of which it has just so long. Once it has nodes it gets no other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from freetrain.core.classes import NodeClass
from freetrain.core.deadlines import Hurries
from freetrain.core.terms import Sizes, Terms, read_only
from freetrain.core.trainer import KindChoice, Trainer

Mask = NDArray[np.bool_]

EACH_BY_ITSELF = -1
"""No class with which all nodes of a trainer leave."""


@dataclass(frozen=True, slots=True)
class Choices:
    """The choices of all trainers, those of each one after the other; row r is one of them.

    Attributes:
        trainer: whose each is, shape (choices,).
        terms: its worth and costs there, a row for each choice.
        may_join: whether it may get new nodes of each class, shape (choices, classes).
        covers: of which classes its nodes may be, those that it has included, likewise.
        last: the class with whose end all of its nodes are of no more use, shape (choices,); -1: there is none.
        is_free: whether everybody may have any nodes together, at the same speed.
    """

    trainer: Sizes
    terms: Terms
    may_join: Mask
    covers: Mask
    last: Sizes
    is_free: bool

    def made_by(self, counts: NDArray[np.int64]) -> Sizes:
        """Which choice each trainer makes that has so many nodes of each class, shape (trainers,); -1: none."""
        if self.is_free:
            return self.trainer
        made = np.full(len(counts), -1, dtype=np.int64)
        fitting = np.flatnonzero(((counts[self.trainer] > 0) <= self.covers).all(axis=1))[::-1]
        made[self.trainer[fitting]] = fitting
        return made


def choices_of(
    trainers: Sequence[Trainer],
    terms: Terms,
    classes: Sequence[NodeClass],
    held: NDArray[np.int64],
    hurries: Hurries,
) -> Choices:
    """The choices that are left.

    Args:
        trainers: whose.
        terms: theirs at speed 1.
        classes: the nodes.
        held: how many of each class each trainer has, shape (trainers, classes).
        hurries: what their deadlines ask for.
    """
    kinds = [node_class.kind for node_class in classes]
    if len(set(kinds)) <= 1 and not terms.names_kinds and not _tell_ends(terms, held):
        every = read_only(np.ones(held.shape, dtype=bool))
        whose = read_only(np.arange(len(trainers)))
        alone = read_only(np.full(len(trainers), EACH_BY_ITSELF))
        return Choices(whose, hurries.on(terms, whose.tolist(), np.ones(len(whose))), every, every, alone, True)
    rows, speeds, joins, lasts = [], [], [], []
    ends = _last_of_life(classes)
    for row, trainer in enumerate(trainers):
        has = held[row] > 0
        for speed, mask in _choices(trainer, kinds, has):
            for its, last in _until(mask, has, ends) if trainer.moldable else ((mask, EACH_BY_ITSELF),):
                rows.append(row)
                speeds.append(speed)
                joins.append(its)
                lasts.append(last)
    whose = read_only(np.array(rows, dtype=np.int64))
    may_join = read_only(np.array(joins, dtype=bool).reshape(len(rows), len(kinds)))
    return Choices(
        whose,
        hurries.on(_at_speed(terms.of(whose), np.array(speeds)), rows, speeds),
        may_join,
        read_only(may_join | (held[whose] > 0)),
        read_only(np.array(lasts, dtype=np.int64)),
        bool(may_join.all()) and all(speed == 1.0 for speed in speeds) and len(rows) == len(trainers),
    )


def _choices(trainer: Trainer, kinds: Sequence[str], has: Mask) -> Iterator[tuple[float, Mask]]:
    """Speed, and the classes that belong to it: of each choice that the trainer has."""
    known = trainer.choices
    if known is None:
        known = tuple(KindChoice((kind,)) for kind in dict.fromkeys(kinds))
    masks = [(each.speed, np.isin(kinds, each.kinds)) for each in known]
    there = [(speed, mask) for speed, mask in masks if mask.any()]
    nowhere = np.zeros(len(kinds), dtype=bool)
    if not has.any():
        yield from there or [(1.0, nowhere)]
        return
    own = [(speed, mask) for speed, mask in there if mask[has].any()]
    if len(own) == 1 and own[0][1][has].all():
        yield own[0]
    else:  # its nodes wait for each other
        yield trainer.speed_on([kind for kind, some in zip(kinds, has, strict=True) if some]), nowhere


def _tell_ends(terms: Terms, held: NDArray[np.int64]) -> bool:
    """Whether there are moldable trainers to whom it matters when each node leaves, or that have nodes."""
    return bool(terms.moldable.any()) and (held.shape[1] > 1 or bool(held[terms.moldable].any()))


def _last_of_life(classes: Sequence[NodeClass]) -> list[int]:
    """The classes, longest-lived first, after which nodes leave: of those that live equally long the last."""
    lives_s = [node_class.life_s for node_class in classes]
    return [column for column, life_s in enumerate(lives_s) if lives_s[column + 1 : column + 2] != [life_s]]


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


def _at_speed(terms: Terms, speed: NDArray[np.float64]) -> Terms:
    """The same, each row worth so many times as much."""
    _, kind = np.unique(np.stack([terms.kind, speed]), axis=1, return_inverse=True)
    return replace(
        terms, worth=read_only(terms.worth * speed[:, None]), kind=read_only(kind.reshape(-1).astype(np.int64))
    )
