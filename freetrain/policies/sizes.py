"""From tables of value by size to an allocation, for policies that have values of their own."""

from __future__ import annotations

import numpy as np

from freetrain.core.allocation import Allocation
from freetrain.core.problem import Problem
from freetrain.core.terms import Sizes, Table
from freetrain.policies.solver import knapsack
from freetrain.policies.solver.pricing import price_out
from freetrain.policies.spread import spread_as_decided, within


def best_by_tables(problem: Problem, values: Table, solver: str, notes: tuple[str, ...] = ()) -> Allocation:
    """The sizes of largest total value, exactly; then the nodes of each class, the long-lived ones to who grows.

    Values are the policy's own, so freetrain's bound says nothing of them and none is claimed.

    Args:
        problem: what is decided.
        values: of each trainer by its size, shape (trainers, sizes); of impossible sizes they are not looked at.
        solver: what the allocation says found it.
        notes: what it says besides.
    """
    nodes, terms = problem.node_count, problem.terms
    if not terms.possible[:, 1 : nodes + 1].any():
        return Allocation(np.zeros_like(problem.held), solver, notes=notes)
    tables = np.where(terms.possible, values, -np.inf)

    def decide_sizes(most: Sizes) -> Sizes:
        return knapsack.best_sizes(price_out(within(problem, tables, most), nodes), nodes)

    return Allocation(spread_as_decided(problem, decide_sizes), solver, notes=notes)
