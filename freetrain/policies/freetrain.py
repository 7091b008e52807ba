"""FreeTrain: the exact optimum of what the trainers gain over the horizon, rescaling costs charged."""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum

import numpy as np

from freetrain.core.decision import Allocation, Status
from freetrain.core.problem import Problem
from freetrain.core.value import tables_of_choices, total_value
from freetrain.guest.guest import Ask
from freetrain.policies.greedy import greedy_counts
from freetrain.policies.solver.guests import COLUMNS, HIGHS, SolverResult, ask_solver, solve_whole_model
from freetrain.policies.solver.knapsack import best_sizes, price_out
from freetrain.policies.solver.piecewise import piecewise_choices, single_class_choices
from freetrain.policies.solver.trainer_types import types_of


class Solver(StrEnum):
    """Solver by which FreeTrain decides."""

    AUTO = "auto"
    """The exact dynamic programme where all nodes are alike, columns where they are not."""
    HIGHS = "highs"
    """The whole model, stated in Pyomo and solved by HiGHS from what auto finds, where pricing leaves anything."""


class FreeTrain:
    """The mixed-integer programme of FreeTrain (CCGrid 2023), solved at the level of node classes.

    Args:
        time_limit_s: wall seconds that HiGHS may take for one problem; it is ended soon after.
        highs: HiGHS, where something else shall answer for it.
        columns: branch and price, where something else shall answer for it.
    """

    def __init__(
        self,
        solver: Solver | str = Solver.AUTO,
        time_limit_s: float = 10.0,
        *,
        highs: Ask = HIGHS,
        columns: Ask = COLUMNS,
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
        if len(problem.classes) > 1:
            greedy = Allocation(greedy_counts(problem), "greedy", Status.FALLBACK)
            asked, known_value = (problem, *types_of(problem)), total_value(problem, greedy.counts)
            found, took_s = ask_solver(self._columns, *asked, time_s=self._time_limit_s, known_value=known_value)
            start, choices = _best_of(problem, greedy, found, "columns"), piecewise_choices(problem)
        else:
            # With one class of nodes each trainer has one choice.
            tables, row = tables_of_choices(problem, problem.classes[0])
            priced = price_out(tables, problem.node_count, row)
            if self._solver == Solver.HIGHS and priced.proven:
                return Allocation(priced.sizes[:, None], "pricing", Status.OPTIMAL, priced.bound)
            counts, took_s = best_sizes(priced, problem.node_count)[:, None], 0.0
            start = Allocation(counts, "dynamic programme", Status.OPTIMAL)
            choices = single_class_choices(problem, priced)
        # The limit is that of the whole decision: HiGHS has what the columns left of it.
        if self._solver == Solver.AUTO or took_s >= self._time_limit_s:
            return start
        # HiGHS begins from what is known, so that its answer is never worse.
        left_s = self._time_limit_s - took_s
        found = solve_whole_model(self._highs, problem, list(choices), start.counts, left_s)
        return _best_of(problem, start, found, "HiGHS")


def _best_of(problem: Problem, start: Allocation, found: SolverResult, solver: str) -> Allocation:
    """The solver's allocation, or the one known before where that is worth more or the solver found none."""
    if found.counts is not None and found.proven:
        notes = (found.note,) if found.note else ()
        return Allocation(found.counts, solver, Status.OPTIMAL, found.bound, notes)
    # What another solver has proven needs no second proof.
    if found.counts is None or start.status is Status.OPTIMAL:
        return replace(start, notes=(*start.notes, _say_used(found.note, start.solver)))
    known = {solver: found.counts, start.solver: start.counts}
    best = max(known, key=lambda name: total_value(problem, known[name]))
    bounds = [bound for bound in (found.bound, start.bound) if bound is not None and np.isfinite(bound)]
    notes = (_say_used(found.note, best),) if found.note else ()
    return Allocation(known[best], best, Status.FEASIBLE, min(bounds, default=None), notes)


def _say_used(note: str, solver: str) -> str:
    return f"{note}; the best allocation known then, {solver}'s, is used"
