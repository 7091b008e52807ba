"""Greedy: nodes go, one bundle after the other, to the trainer that gains most per node."""

from __future__ import annotations

import numpy as np

from freetrain.core.classes import NodeClass
from freetrain.core.decision import Allocation
from freetrain.core.place import Traits
from freetrain.core.problem import Counts, Problem
from freetrain.core.terms import Sizes, Table
from freetrain.core.value import distinct_tables
from freetrain.policies.solver.knapsack import price_out
from freetrain.policies.spread import spread_as_decided, within


class Greedy:
    """Gives each trainer the size that is best at the market's price per node, then hands out the rest.

    Close to the optimum and quick at any size; also what ``freetrain`` falls back on.
    """

    def decide(self, problem: Problem) -> Allocation:
        """Greedy sizes, valued as if all nodes lived equally long."""
        return Allocation(greedy_counts(problem), "greedy")


def greedy_counts(problem: Problem) -> Counts:
    """Nodes of each class for each trainer, as ``Greedy`` decides it."""
    if not problem.held.size:
        return problem.held
    tables = _tables(problem)

    def decide_sizes(most: Sizes) -> Sizes:
        return price_out(within(problem, tables, most), problem.node_count).sizes

    return spread_as_decided(problem, decide_sizes)


def _tables(problem: Problem) -> Table:
    choices, typical = problem.choices, _typical_class(problem)
    held_nodes = problem.held_nodes[choices.trainer]
    may_join = None if choices.is_free else choices.may_join.sum(axis=1) > 0
    tables, row = distinct_tables(choices.terms, held_nodes, typical, may_join)
    return choices.best_of_each(tables[row])


def _typical_class(problem: Problem) -> NodeClass:
    """A class with the nodes' mean life."""
    lives_s = [node_class.life_s for node_class in problem.classes]
    taken_back = all(node_class.taken_back for node_class in problem.classes)
    life_s = float(np.average(lives_s, weights=problem.capacity))
    joules = [node_class.traits.watts * node_class.life_s for node_class in problem.classes]
    watts = float(np.average(joules, weights=problem.capacity)) / life_s
    return NodeClass(life_s, taken_back, {}, Traits(watts=watts))
