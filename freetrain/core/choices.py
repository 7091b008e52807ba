"""Choices: on which kinds of nodes each trainer of a problem may be, and what it is worth there.

All nodes of a trainer belong to one of its choices. Nobody migrates, so who has nodes has no other choice left
than that to which they belong; if they belong to several, as after a change of what it may use, it may keep some
of them or all, and gets no other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from freetrain.core.classes import NodeClass
from freetrain.core.terms import Sizes, Terms, read_only
from freetrain.core.trainer import KindChoice, Trainer

Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Choices:
    """The choices of all trainers, those of each one after the other; row r is one of them.

    Attributes:
        trainer: whose each is, shape (choices,).
        terms: its worth and costs there, a row for each choice.
        may_join: whether it may get new nodes of each class, shape (choices, classes).
        covers: of which classes its nodes may be, those that it has included, likewise.
        is_free: whether everybody may have any nodes together, at the same speed.
    """

    trainer: Sizes
    terms: Terms
    may_join: Mask
    covers: Mask
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
    trainers: Sequence[Trainer], terms: Terms, classes: Sequence[NodeClass], held: NDArray[np.int64]
) -> Choices:
    """The choices that are left.

    Args:
        trainers: whose.
        terms: theirs at speed 1.
        classes: the nodes.
        held: how many of each class each trainer has, shape (trainers, classes).
    """
    kinds = [node_class.kind for node_class in classes]
    if len(set(kinds)) <= 1 and all(one.choices is None for one in trainers):
        every = read_only(np.ones(held.shape, dtype=bool))
        return Choices(read_only(np.arange(len(trainers))), terms, every, every, True)
    rows, speeds, joins = [], [], []
    for row, trainer in enumerate(trainers):
        for speed, mask in _choices(trainer, kinds, held[row] > 0):
            rows.append(row)
            speeds.append(speed)
            joins.append(mask)
    whose = read_only(np.array(rows, dtype=np.int64))
    may_join = read_only(np.array(joins, dtype=bool).reshape(len(rows), len(kinds)))
    return Choices(
        whose,
        _at_speed(terms.of(whose), np.array(speeds)),
        may_join,
        read_only(may_join | (held[whose] > 0)),
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


def _at_speed(terms: Terms, speed: NDArray[np.float64]) -> Terms:
    """The same, each row worth so many times as much."""
    _, kind = np.unique(np.stack([terms.kind, speed]), axis=1, return_inverse=True)
    return replace(
        terms, worth=read_only(terms.worth * speed[:, None]), kind=read_only(kind.reshape(-1).astype(np.int64))
    )
