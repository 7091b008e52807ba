"""FreeTrain: the exact optimum of what the trainers gain over the horizon, rescaling costs charged."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

import numpy as np

from freetrain.core.decision import Allocation, Status
from freetrain.core.problem import Counts, Problem
from freetrain.core.value import distinct_tables, total_value
from freetrain.policies.greedy import greedy_counts
from freetrain.policies.solver.guests import COLUMNS, HIGHS, SolverGuest, SolverResult, solve_whole_model
from freetrain.policies.solver.knapsack import best_sizes, price_out
from freetrain.policies.solver.piecewise import PiecewiseChoice, piecewise_choices, single_class_choices
from freetrain.policies.solver.trainer_types import types_of


class Solver(StrEnum):
    """Which solver decides."""

    AUTO = "auto"
    """The exact dynamic programme where all nodes are alike, columns where they are not."""
    HIGHS = "highs"
    """The whole model, stated in Pyomo and solved by HiGHS, wherever pricing leaves something to solve."""


class FreeTrain:
    """The mixed-integer programme of FreeTrain (CCGrid 2023), solved at the level of node classes.

    Args:
        solver: which solver decides.
        time_limit_s: wall seconds that HiGHS may take for one problem; it is ended soon after.
        highs: HiGHS, where something else shall answer for it.
        columns: branch and price, where something else shall answer for it.
    """

    def __init__(
        self,
        solver: Solver | str = Solver.AUTO,
        time_limit_s: float = 10.0,
        *,
        highs: SolverGuest = HIGHS,
        columns: SolverGuest = COLUMNS,
    ) -> None:
        self._solver = Solver(solver)
        self._time_limit_s = time_limit_s
        self._highs = highs
        self._columns = columns

    def decide(self, problem: Problem) -> Allocation:
        """The optimum, or what is known to be close; the best known where time runs out; greedy where none is."""
        # No trainer could run, or there are no nodes.
        if not problem.terms.possible[:, 1 : problem.node_count + 1].any():
            return Allocation(np.zeros_like(problem.held), "nothing to decide", Status.OPTIMAL)
        if len(problem.classes) > 1 and self._solver == Solver.HIGHS:
            return self._with_highs(problem, list(piecewise_choices(problem)))
        if len(problem.classes) > 1:
            return self._with_columns(problem)
        # With one class of nodes each trainer has one choice.
        may_join = None if problem.choices.is_free else problem.choices.may_join[:, 0]
        tables, row = distinct_tables(problem.choices.terms, problem.held_nodes, problem.classes[0], may_join)
        priced = price_out(tables, problem.node_count, row)
        if self._solver == Solver.HIGHS and priced.proven:
            return Allocation(priced.sizes[:, None], "pricing", Status.OPTIMAL, priced.bound)
        if self._solver == Solver.HIGHS:
            return self._with_highs(problem, list(single_class_choices(problem, priced)))
        counts = best_sizes(priced, problem.node_count)[:, None]
        return Allocation(counts, "dynamic programme", Status.OPTIMAL)

    def _with_highs(self, problem: Problem, choices: Sequence[PiecewiseChoice]) -> Allocation:
        greedy = greedy_counts(problem)
        found = solve_whole_model(self._highs, problem, choices, self._time_limit_s, total_value(problem, greedy))
        return _best_of(problem, found, "HiGHS", greedy)

    def _with_columns(self, problem: Problem) -> Allocation:
        greedy = greedy_counts(problem)
        known_value = total_value(problem, greedy)
        asked = problem, *types_of(problem)
        found, _ = self._columns.ask(*asked, time_s=self._time_limit_s, known_value=known_value)
        return _best_of(problem, found, "columns", greedy)


def _best_of(problem: Problem, found: SolverResult, solver: str, greedy: Counts) -> Allocation:
    """The solver's allocation, or the greedy one where that is worth more or the solver found none."""
    if found.counts is None:
        why = f"{found.note}; decided greedily"
        return Allocation(greedy, "greedy", Status.FALLBACK, notes=(why,))
    notes = (found.note,) if found.note else ()
    if found.proven:
        return Allocation(found.counts, solver, Status.OPTIMAL, found.bound, notes)
    known = {solver: found.counts, "greedy": greedy}
    best = max(known, key=lambda name: total_value(problem, known[name]))
    bound = found.bound if np.isfinite(found.bound) else None
    used = tuple(f"{note}; the best allocation known then, {best}'s, is used" for note in notes)
    return Allocation(known[best], best, Status.FEASIBLE, bound, used)
