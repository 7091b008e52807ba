"""Bidders: the trainers of a problem as arrays, those that do not differ put together."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from freetrain.core.problem import Counts, Problem
from freetrain.core.terms import Sizes, Table
from freetrain.core.value import switching_costs, useful_seconds


@dataclass(frozen=True)
class Bidders:
    """Trainers as far as they differ, and the classes; row j is kind j of trainer.

    Attributes:
        worth: worth per second by size, shape (kinds, sizes).
        switching: cost of changing to each size, inf where it is impossible, shape (kinds, sizes).
        useful_s: how long the nodes of each class and of those that live longer are alive and no others, less
            what is lost on each node that leaves, shape (kinds, classes).
        known_end_s: seconds lost when any nodes leave at a known time, shape (kinds,).
        held: nodes each of them has now, shape (kinds, classes).
        number: how many trainers are of the kind, shape (kinds,).
        taken_back: which classes are taken back, shape (classes,).
        capacity: nodes in each class, shape (classes,).
    """

    worth: Table
    switching: Table
    useful_s: Table
    known_end_s: NDArray[np.float64]
    held: Counts
    number: Sizes
    taken_back: NDArray[np.bool_]
    capacity: Sizes

    def on(self, capacity: Sizes) -> Bidders:
        """The same trainers, and the nodes that are left."""
        return replace(self, capacity=capacity)

    def only(self, kinds: NDArray[np.int64]) -> Bidders:
        """Some of the kinds."""
        return Bidders(
            self.worth[kinds],
            self.switching[kinds],
            self.useful_s[kinds],
            self.known_end_s[kinds],
            self.held[kinds],
            self.number[kinds],
            self.taken_back,
            self.capacity,
        )

    def values_of(self, kind: int, counts: Counts) -> NDArray[np.float64]:
        """What some choices of one kind are worth, shape of ``counts`` without its last axis."""
        alive = np.cumsum(counts, axis=-1)
        useful_s = self.useful_s[kind] - (counts > 0) * self.taken_back * self.known_end_s[kind]
        values: NDArray[np.float64] = (useful_s * self.worth[kind][alive]).sum(axis=-1)
        values -= self.switching[kind][alive[..., -1]]
        return values


def bidders_of(problem: Problem) -> tuple[Bidders, list[list[int]]]:
    """The kinds of trainers, and the rows of the problem's trainers of each."""
    terms = problem.terms
    switching = np.where(terms.possible, switching_costs(terms, problem.held_nodes), np.inf)
    useful_s = useful_seconds(terms, problem.classes)
    members: dict[bytes, list[int]] = {}
    for row in range(len(problem.trainers)):
        parts = (terms.worth[row], switching[row], useful_s[row], terms.known_end_s[row], problem.held[row])
        members.setdefault(b"".join(np.ascontiguousarray(part).tobytes() for part in parts), []).append(row)
    rows = list(members.values())
    first = [each[0] for each in rows]
    sizes = min(terms.worth.shape[1], problem.node_count + 1)
    bidders = Bidders(
        terms.worth[first, :sizes],
        switching[first, :sizes],
        useful_s[first],
        terms.known_end_s[first],
        problem.held[first],
        np.array([len(each) for each in rows]),
        np.array([one.taken_back for one in problem.classes]),
        problem.capacity,
    )
    return bidders, rows
