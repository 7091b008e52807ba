"""FreeTrain: the exact optimum of what the trainers gain over the horizon, rescaling costs charged."""

from __future__ import annotations

from enum import StrEnum

import numpy as np

from freetrain.core.decision import Decision, Status
from freetrain.core.objectives import worth_per_s
from freetrain.core.placement import place
from freetrain.core.problem import Problem
from freetrain.core.supply import Counts, Supply, supply_of
from freetrain.core.value import Table, switching_cost, total_value
from freetrain.policies.greedy import greedy_counts, value_tables
from freetrain.policies.solver import knapsack
from freetrain.policies.solver.offer import Offer
from freetrain.policies.solver.pieces import linear_runs, pieces_on
from freetrain.policies.solver.pricing import Priced, price_out


class Solver(StrEnum):
    """Which solver decides."""

    AUTO = "auto"
    """The exact dynamic programme where all nodes are alike, HiGHS where they are not."""
    HIGHS = "highs"
    """HiGHS always."""


class FreeTrain:
    """The mixed-integer programme of FreeTrain (CCGrid 2023), solved at the level of node classes.

    Args:
        solver: which solver decides.
        time_limit_s: wall seconds that HiGHS may take for one problem.
    """

    def __init__(self, solver: Solver | str = Solver.AUTO, time_limit_s: float = 10.0) -> None:
        self._solver = Solver(solver)
        self._time_limit_s = time_limit_s

    def decide(self, problem: Problem) -> Decision:
        """The optimum; HiGHS's best where its time runs out; a greedy one where it found none."""
        supply = supply_of(problem)
        if not supply.classes or not problem.trainers:
            return _decision(supply, Status.OPTIMAL, supply.held, "nothing to decide", gap=0.0)
        if len(supply.classes) > 1:
            return self._with_highs(supply)
        priced = price_out(value_tables(supply, supply.classes[0]), supply.node_count)
        if self._solver == Solver.HIGHS:
            return self._with_highs(supply, priced)
        counts = knapsack.best_sizes(priced, supply.node_count)[:, None]
        return _decision(supply, Status.OPTIMAL, counts, "dynamic programme", gap=0.0)

    def _with_highs(self, supply: Supply, priced: Priced | None = None) -> Decision:
        # Pyomo takes a second to import, which commands that need no HiGHS should not wait for.
        from freetrain.policies.solver import highs

        offers = [
            _offer(supply, row) if priced is None else _single_class_offer(supply, priced, row)
            for row in range(len(supply.problem.trainers))
        ]
        try:
            answer = highs.solve(offers, supply.capacity.tolist(), self._time_limit_s)
        except Exception as error:
            return _fallback(supply, f"HiGHS failed: {type(error).__name__}: {error}")
        if answer.counts is None:
            return _fallback(supply, f"HiGHS found no allocation within {self._time_limit_s:g} s ({answer.said})")
        if answer.proven:
            return _decision(supply, Status.OPTIMAL, answer.counts, "HiGHS", gap=0.0)
        value = total_value(supply, answer.counts)
        gap = (answer.bound - value) / max(abs(value), 1e-9)
        note = f"HiGHS was stopped after {self._time_limit_s:g} s ({answer.said}); its best allocation is used"
        return _decision(supply, Status.FEASIBLE, answer.counts, "HiGHS", gap, note)


def _single_class_offer(supply: Supply, priced: Priced, row: int) -> Offer:
    """What a trainer may be given of the only class: the sizes that pricing left."""
    held = int(supply.held[row, 0])
    table = priced.values[row]
    sizes = np.flatnonzero(priced.worthwhile[row]).tolist()
    return Offer([pieces_on(table, linear_runs(table, sizes, held))], [held], [[]])


def _offer(supply: Supply, row: int) -> Offer:
    """What a trainer may be given of several classes, interval by interval."""
    trainer = supply.problem.trainers[row]
    worth = worth_per_s(trainer, supply.problem.objective)
    held = supply.held[row].tolist()
    pieces, losses = [], []
    for column, node_class in enumerate(supply.classes):
        whole = column == len(supply.classes) - 1
        shorter_life_s = 0.0 if whole else supply.classes[column + 1].life_s
        gain: Table = (node_class.life_s - shorter_life_s) * worth
        if whole:
            gain = gain - switching_cost(trainer, worth, sum(held))
        loss: Table = (trainer.eviction_s if node_class.taken_back else 0.0) * worth
        if column == 0:  # every node is gone after it, so this loss is certain
            gain, loss = gain - loss, np.zeros_like(loss)
        most = min(trainer.most_nodes, int(supply.capacity[: column + 1].sum()))
        sizes = [0, *range(trainer.min_nodes if whole else 1, most + 1)]
        runs = list(linear_runs(worth, sizes, sum(held) if whole else -1))
        pieces.append(pieces_on(gain, runs))
        losses.append(pieces_on(loss, runs) if loss.any() else [])
    return Offer(pieces, held, losses)


def _decision(
    supply: Supply, status: Status, counts: Counts, solver: str, gap: float | None, *notes: str
) -> Decision:
    return Decision(status, total_value(supply, counts), place(supply, counts), solver, gap, notes=notes)


def _fallback(supply: Supply, why: str) -> Decision:
    return _decision(supply, Status.FALLBACK, greedy_counts(supply), "greedy", None, f"{why}; decided greedily")
