"""Spreading: from values to sizes, from sizes to nodes of each class, for policies with values of their own."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from freetrain.core.decision import Allocation
from freetrain.core.problem import Counts, Problem
from freetrain.core.terms import Sizes, Table
from freetrain.policies.solver.knapsack import best_sizes, price_out

_EVENLY = 4
"""Parts of what a trainer lacks where nodes are given out evenly: in a round it gets one of them, one fourth."""


def spread(problem: Problem, sizes: Sizes, *, evenly: bool = False) -> Counts:
    """Nodes of each class for trainers of given sizes, shape (trainers, classes), without migration.

    A trainer that shrinks gives up its shortest-lived nodes; one that grows takes the longest-lived left, those
    first that an eviction would cost most, and none that leaves before it would have booted. Where kinds of nodes
    differ, each takes those on which it is worth most, and where they do not suffice, some get less than their
    size, or all a part where it is done evenly. A moldable trainer that has nodes and is to have fewer gets none,
    and no more than it has otherwise.
    """
    choices, held = problem.choices, problem.held_nodes
    stays = problem.terms.moldable & (held > 0)
    sizes = np.where(stays, np.where(sizes < held, 0, held), sizes)
    if len(problem.classes) == 1 and problem.joins.all():
        return sizes[:, None].astype(np.int64)
    counts = problem.held.copy()
    change = sizes - problem.held_nodes
    for row in np.flatnonzero(change < 0).tolist():
        counts[row] -= _take(counts[row][::-1], int(-change[row]))[::-1]
    growing = np.flatnonzero(change > 0)
    if choices.is_free:
        _grow_in_turn(problem, counts, change, growing)
    else:
        _grow_in_rounds(problem, counts, change, growing, _EVENLY if evenly else 1)
    return counts


def _grow_in_turn(problem: Problem, counts: Counts, change: Sizes, growing: NDArray[np.int64]) -> None:
    terms, joins = problem.terms, problem.joins
    left = problem.capacity - counts.sum(axis=0)
    # Stable: of those that lose equally much the one that was admitted first chooses first.
    loss = _loss(problem, problem.held_nodes + change)[growing]
    for row in growing[np.argsort(-loss, kind="stable")].tolist():
        taken = _take(left * joins[row], int(change[row]))
        left = left - taken
        counts[row] += taken
        if not terms.possible[row, counts[row].sum()]:  # too few boot in time for its minimum
            left = left + counts[row]
            counts[row] = 0


def _grow_in_rounds(
    problem: Problem, counts: Counts, change: Sizes, growing: NDArray[np.int64], parts: int
) -> None:
    """Give each trainer what it needs at least, then a part of what it lacks, and so on, so that all get some."""
    choices, joins, wanted = problem.choices, problem.joins, problem.held_nodes + change
    reach = np.zeros(len(wanted), dtype=np.int64)
    np.add.at(reach, choices.trainer, (joins * problem.capacity).sum(axis=1))
    # Those that can reach the least nodes have no choice, and come first; then those an eviction would cost most.
    order = growing[np.lexsort((-_loss(problem, wanted)[growing], reach[growing]))].tolist()
    made: dict[int, int] = {}
    left = problem.capacity - counts.sum(axis=0)
    for is_first in itertools.chain([True], itertools.repeat(False)):
        before = int(left.sum())
        for row in order:
            lacks = int(wanted[row] - counts[row].sum())
            if is_first:
                made[row] = _best_choice(problem, row, left * joins, lacks)
                least = problem.trainers[row].min_nodes - int(counts[row].sum())
                step = max(least, min(1, lacks))
            else:
                least, step = 1, -(-lacks // parts)
            taken = _take(left * joins[made[row]], step)
            if taken.sum() >= least:
                counts[row] += taken
                left = left - taken
            elif is_first:  # it cannot have its minimum
                left = left + counts[row]
                wanted[row] = counts[row] = 0
        if not is_first and int(left.sum()) == before:
            return


def _best_choice(problem: Problem, row: int, left: Counts, lacks: int) -> int:
    """The choice on which a trainer would be worth most if no other took any of what is left."""
    choices, held = problem.choices, int(problem.held_nodes[row])
    own = np.flatnonzero(choices.trainer == row)
    sizes = held + np.minimum(left[own].sum(axis=1), lacks)
    return int(own[choices.terms.worth[own, sizes].argmax()])


def _loss(problem: Problem, sizes: Sizes) -> NDArray[np.float64]:
    terms = problem.terms
    return np.asarray(terms.eviction_s * terms.worth[np.arange(len(sizes)), sizes])


def spread_as_decided(problem: Problem, decide_sizes: Callable[[Sizes], Sizes], *, evenly: bool = False) -> Counts:
    """Nodes of each class; sizes are decided again, by how many each can get, while a kind does not suffice."""
    choices = problem.choices
    most = np.full(len(problem.trainers), problem.node_count)
    if choices.is_free:
        return spread(problem, decide_sizes(most))
    reach = np.where(choices.covers, problem.capacity, 0).sum(axis=1)
    most = np.zeros_like(most)
    np.maximum.at(most, choices.trainer, reach)
    while True:
        # This ends: in each round the most that some trainer may get falls.
        sizes = decide_sizes(most)
        counts = spread(problem, sizes, evenly=evenly)
        got = counts.sum(axis=1)
        if (got >= sizes).all():
            return counts
        most = np.where(got < sizes, got, most)


def within(problem: Problem, tables: Table, most: Sizes) -> Table:
    """Values by size, -inf where a trainer cannot get so many nodes; held nodes are never out of reach."""
    if problem.choices.is_free:
        return tables
    reach = np.maximum(most, problem.held_nodes)
    return np.where(np.arange(tables.shape[1]) <= reach[:, None], tables, -np.inf)


def _take(available: NDArray[np.int64], nodes: int) -> NDArray[np.int64]:
    """Take nodes class by class, all of the first class before any of the second."""
    return np.diff(np.minimum(np.cumsum(available), nodes), prepend=0)


def best_by_tables(problem: Problem, values: Table, solver: str, notes: tuple[str, ...] = ()) -> Allocation:
    """Sizes of largest total value, exactly; then nodes of each class, the long-lived ones to those that grow.

    Values are the policy's own, so freetrain's bound says nothing of them and none is claimed.
    """
    nodes, terms = problem.node_count, problem.terms
    if not terms.possible[:, 1 : nodes + 1].any():
        return Allocation(np.zeros_like(problem.held), solver, notes=notes)
    tables = np.where(terms.possible, values, -np.inf)

    def decide_sizes(most: Sizes) -> Sizes:
        return best_sizes(price_out(within(problem, tables, most), nodes), nodes)

    return Allocation(spread_as_decided(problem, decide_sizes), solver, notes=notes)
