"""Greedy: nodes go, one bundle after the other, to whoever gains most per node."""

from __future__ import annotations

import numpy as np

from freetrain.core.decision import Decision, Status
from freetrain.core.objectives import worth_per_s
from freetrain.core.placement import place
from freetrain.core.problem import Problem
from freetrain.core.supply import Counts, NodeClass, Supply, supply_of
from freetrain.core.value import Table, single_class_table, total_value
from freetrain.policies.solver.pricing import price_out
from freetrain.policies.spread import spread


class Greedy:
    """Gives each trainer the size that is best at the market's price per node, then hands out the rest.

    Close to the optimum and quick at any size; also what ``freetrain`` falls back on.
    """

    def decide(self, problem: Problem) -> Decision:
        """Greedy sizes, valued as if all nodes lived equally long."""
        supply = supply_of(problem)
        counts = greedy_counts(supply)
        return Decision(Status.HEURISTIC, total_value(supply, counts), place(supply, counts), "greedy")


def greedy_counts(supply: Supply) -> Counts:
    """Nodes of each class for each trainer, as ``Greedy`` decides it."""
    if not supply.classes or not supply.problem.trainers:
        return supply.held
    return spread(supply, price_out(value_tables(supply, _typical_class(supply)), supply.node_count).sizes)


def value_tables(supply: Supply, node_class: NodeClass) -> list[Table]:
    """Each trainer's value by its number of nodes if all were like this class."""
    held_nodes = supply.held.sum(axis=1).tolist()
    return [
        single_class_table(trainer, worth_per_s(trainer, supply.problem.objective), held, node_class)
        for trainer, held in zip(supply.problem.trainers, held_nodes, strict=True)
    ]


def _typical_class(supply: Supply) -> NodeClass:
    """A class with the nodes' mean life."""
    lives_s = [node_class.life_s for node_class in supply.classes]
    taken_back = all(node_class.taken_back for node_class in supply.classes)
    return NodeClass(float(np.average(lives_s, weights=supply.capacity)), taken_back, {})
