"""Bidders: the trainers of a problem as arrays, those that do not differ put together."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from freetrain.core.problem import Counts, Problem
from freetrain.core.terms import Sizes, Table
from freetrain.core.value import (
    UsefulTime,
    boots_in_time,
    switching_costs,
    useful_time,
    worth_while_booting,
)


@dataclass(frozen=True)
class Bidders:
    """Trainers as far as they differ, and the classes; row j is kind j of trainer.

    Attributes:
        worth: worth per second by size, shape (kinds, sizes).
        switching: cost of changing to each size, inf where it is impossible, shape (kinds, sizes).
        now: use of the nodes of each class for who gets none that it has not.
        booted: use of them for who grows, from when its new nodes have booted; None: new nodes train at once.
        before: what its nodes are worth to who grows until then, shape (kinds,).
        joins: whether a new node of each class boots before it leaves, shape (kinds, classes).
        held: nodes each of them has now, shape (kinds, classes).
        number: how many trainers are of the kind, shape (kinds,).
        capacity: nodes in each class, shape (classes,).
    """

    worth: Table
    switching: Table
    now: UsefulTime
    booted: UsefulTime | None
    before: NDArray[np.float64]
    joins: NDArray[np.bool_]
    held: Counts
    number: Sizes
    capacity: Sizes

    def on(self, capacity: Sizes) -> Bidders:
        """The same trainers, and the nodes that are left."""
        return replace(self, capacity=capacity)

    def only(self, kinds: NDArray[np.int64]) -> Bidders:
        """Some of the kinds."""
        return Bidders(
            self.worth[kinds],
            self.switching[kinds],
            self.now.of(kinds),
            self.booted and self.booted.of(kinds),
            self.before[kinds],
            self.joins[kinds],
            self.held[kinds],
            self.number[kinds],
            self.capacity,
        )

    def values_of(self, kind: int, counts: Counts) -> NDArray[np.float64]:
        """What some choices of one kind are worth, shape of ``counts`` without its last axis."""
        alive = np.cumsum(counts, axis=-1)
        worth, sizes = self.worth[kind][alive], alive[..., -1]
        values = _worth_of(self.now, kind, counts, worth)
        if self.booted is not None:
            grown = self.before[kind] + _worth_of(self.booted, kind, counts, worth)
            values = np.where(sizes > self.held[kind].sum(), grown, values)
        return np.asarray(values - self.switching[kind][sizes])


def _worth_of(use: UsefulTime, kind: int, counts: Counts, worth: Table) -> NDArray[np.float64]:
    values: NDArray[np.float64] = ((use.alone_s[kind] - (counts > 0) * use.end_s[kind]) * worth).sum(axis=-1)
    return values


def bidders_of(problem: Problem) -> tuple[Bidders, list[list[int]]]:
    """The kinds of trainers, and the rows of the problem's trainers of each."""
    terms = problem.terms
    switching = np.where(terms.possible, switching_costs(terms, problem.held_nodes), np.inf)
    now, boots = useful_time(terms, problem.classes), bool(terms.boot_s.any())
    booted = useful_time(terms, problem.classes, booted=True) if boots else now
    members: dict[bytes, list[int]] = {}
    for row in range(len(problem.trainers)):
        times = (now.alone_s, now.end_s, booted.alone_s, booted.end_s)
        parts = (terms.worth[row], switching[row], *(each[row] for each in times), problem.held[row])
        members.setdefault(b"".join(np.ascontiguousarray(part).tobytes() for part in parts), []).append(row)
    rows = list(members.values())
    first = [each[0] for each in rows]
    sizes = min(terms.worth.shape[1], problem.node_count + 1)
    bidders = Bidders(
        terms.worth[first, :sizes],
        switching[first, :sizes],
        now.of(first),
        booted.of(first) if boots else None,
        worth_while_booting(terms, problem.held, now, booted)[first],
        boots_in_time(terms, problem.classes)[first],
        problem.held[first],
        np.array([len(each) for each in rows]),
        problem.capacity,
    )
    return bidders, rows
