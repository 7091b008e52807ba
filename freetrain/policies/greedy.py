"""Greedy: nodes go, one bundle after the other, to the trainer that gains most per node."""

from __future__ import annotations

import numpy as np

from freetrain.core.classes import NodeClass
from freetrain.core.decision import Allocation
from freetrain.core.place import Traits
from freetrain.core.problem import Counts, Problem
from freetrain.core.terms import Sizes
from freetrain.core.value import tables_of_choices
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
    tables, row = tables_of_choices(problem, _typical_class(problem))
    best = problem.choices.best_of_each(tables[row])

    def decide_sizes(most: Sizes) -> Sizes:
        return price_out(within(problem, best, most), problem.node_count).sizes

    return spread_as_decided(problem, decide_sizes)


def _typical_class(problem: Problem) -> NodeClass:
    """A class with the nodes' mean life."""
    lives_s = [node_class.life_s for node_class in problem.classes]
    taken_back = all(node_class.taken_back for node_class in problem.classes)
    life_s = float(np.average(lives_s, weights=problem.capacity))
    joules = [node_class.traits.watts * node_class.life_s for node_class in problem.classes]
    watts = float(np.average(joules, weights=problem.capacity)) / life_s
    return NodeClass(life_s, taken_back, {}, Traits(watts=watts))
