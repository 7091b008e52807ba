"""Greedy: nodes go, one bundle after the other, to whoever gains most per node."""

from __future__ import annotations

import numpy as np

from freetrain.core.allocation import Allocation
from freetrain.core.classes import NodeClass
from freetrain.core.problem import Counts, Problem
from freetrain.core.value import value_tables
from freetrain.policies.solver.pricing import price_out
from freetrain.policies.spread import spread


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
    tables = value_tables(problem.terms, problem.held_nodes, _typical_class(problem))
    return spread(problem, price_out(tables, problem.node_count).sizes)


def _typical_class(problem: Problem) -> NodeClass:
    """A class with the nodes' mean life."""
    lives_s = [node_class.life_s for node_class in problem.classes]
    taken_back = all(node_class.taken_back for node_class in problem.classes)
    return NodeClass(float(np.average(lives_s, weights=problem.capacity)), taken_back, {})
