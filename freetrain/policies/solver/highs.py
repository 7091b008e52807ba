r"""The whole model: FreeTrain's mixed-integer programme by node classes and sizes, in Pyomo, solved by HiGHS.

The published model decides for every pair of trainer and node. Nodes of one class are interchangeable, so
it has the same optimum to decide how many nodes of each class *c* each trainer *j* gets:

* ``nodes[j,c]``: nodes of class c for trainer j, integer. Classes are sorted by life; interval *c* is the
  time during which the nodes of classes 0 … c are alive and no others. It has no length where the next class, of
  another kind of node, lives as long.
* ``picks[j,c,p]``: whether in interval c the size of trainer j lies in piece p of its value, binary.
* ``part[j,c,p]``: how far into that piece, 0 where it is not picked.

A class that is taken back before the horizon costs its holders a loss: there each piece comes twice, with and
without that loss. Where new nodes must boot, time counts from then for a trainer that grows: there pieces come
once for growing and once for not growing. With one class this is a multiple-choice knapsack.

A trainer that may have one of several kinds of nodes stands here once for each of these choices: *j* is a choice
then, and all but one of a trainer's choices get no node.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import highspy
import numpy as np
import pyomo.environ as pyo
from pyomo.repn import generate_standard_repn

from freetrain.core.decision import Decision
from freetrain.core.problem import Counts, Problem
from freetrain.core.value import counts_of
from freetrain.policies.binary_programme import quiet_highs
from freetrain.policies.solver.guests import Agreement, SecondOpinion, SolverAnswer, compare
from freetrain.policies.solver.piecewise import Piece, PiecewiseChoice, counts_by_choice, piecewise_choices

RELATIVE_GAP = 1e-9
"""HiGHS stops where its best answer is proven to within this share of the bound."""


def solve(
    choices: Sequence[PiecewiseChoice],
    capacity: Sequence[int],
    start: Sequence[Sequence[int]] = (),
    presolve: bool = True,
    *,
    left_s: Callable[[], float],
) -> SolverAnswer:
    """Allocation of largest total value, or the best one found in time.

    Choices of a trainer follow each other, classes are longest-lived first. ``start`` is a known allocation, nodes
    of each choice and class, with which the search begins.
    """
    model = state_model(choices, capacity)
    solver, column = highs_with(model)
    solver.setOptionValue("mip_rel_gap", RELATIVE_GAP)
    solver.setOptionValue("presolve", "choose" if presolve else "off")
    begin_with(solver, model, start, column)
    # Only now: stating the model takes its share of the time. The guest ends HiGHS where it ignores the limit.
    solver.setOptionValue("time_limit", max(left_s(), 0.0))
    solver.run()
    status, info = solver.getModelStatus(), solver.getInfo()
    counts: Counts | None = None
    if info.primal_solution_status == highspy.SolutionStatus.kSolutionStatusFeasible:
        values = np.asarray(solver.getSolution().col_value)
        nodes = np.zeros((choices[-1].trainer + 1, len(capacity)))
        for j, choice in enumerate(choices):
            nodes[choice.trainer] += [values[column[id(model.nodes[j, c])]] for c in model.klass]
        counts = np.rint(nodes).astype(np.int64)
    proven = status == highspy.HighsModelStatus.kOptimal
    out_of_time = status == highspy.HighsModelStatus.kTimeLimit
    # Before its first relaxation is solved HiGHS knows no bound.
    bound = float(info.mip_dual_bound) if np.isfinite(info.mip_dual_bound) else float("inf")
    return SolverAnswer(counts, proven, bound, solver.modelStatusToString(status), out_of_time)


def solve_again(problem: Problem, decision: Decision, *, left_s: Callable[[], float]) -> SecondOpinion:
    """A second opinion on a decision, with which HiGHS begins; called in the guest."""
    choices = list(piecewise_choices(problem))
    start = counts_by_choice(problem, choices, counts_of(problem, decision.placement)).tolist()
    opinion = SecondOpinion(Agreement.OPEN)
    for presolve in (True, False):
        answer = solve(choices, problem.capacity.tolist(), start, presolve, left_s=left_s)
        opinion = compare(problem, decision, answer)
        # HiGHS's presolve is known to lose solutions: what it says against a decision must hold without it.
        if opinion.agreement is not Agreement.DIFFERS:
            break
    return opinion


def state_model(choices: Sequence[PiecewiseChoice], capacity: Sequence[int]) -> pyo.ConcreteModel:
    """The whole model."""
    model = pyo.ConcreteModel()
    _declare(model, choices, capacity)
    one_piece_per_interval(model, choices)
    sizes_lie_in_their_pieces(model, choices)
    sizes_count_the_living(model, choices)
    classes_suffice(model, capacity)
    if len(capacity) > 1:
        one_choice_each(model, choices)
        no_migration(model, choices, capacity)
        growth_waits_for_boots(model, choices, capacity)
        ends_are_charged(model, choices, capacity)
    value_is_maximal(model, choices)
    return model


def _declare(model: Any, choices: Sequence[PiecewiseChoice], capacity: Sequence[int]) -> None:
    model.trainer = pyo.RangeSet(0, len(choices) - 1)
    model.klass = pyo.RangeSet(0, len(capacity) - 1)
    model.piece = pyo.Set(
        initialize=[
            (j, c, p)
            for j, choice in enumerate(choices)
            for c, ps in enumerate(choice.pieces)
            for p in range(len(ps))
        ]
    )
    model.nodes = pyo.Var(
        model.trainer, model.klass, domain=pyo.NonNegativeIntegers, bounds=lambda _, j, c: (0, capacity[c])
    )
    model.picks = pyo.Var(model.piece, domain=pyo.Binary)
    # Without bounds of their own, HiGHS 1.15.1 can loop for ever in presolve, whatever its time limit.
    model.part = pyo.Var(model.piece, bounds=lambda _, j, c, p: (0, _length(choices[j].pieces[c][p])))


def one_piece_per_interval(model: Any, choices: Sequence[PiecewiseChoice]) -> None:
    """Σ_p picks[j,c,p] = 1."""

    @model.Constraint(model.trainer, model.klass)
    def one_piece(m: Any, j: int, c: int) -> Any:
        return sum(m.picks[j, c, p] for p in range(len(choices[j].pieces[c]))) == 1


def sizes_lie_in_their_pieces(model: Any, choices: Sequence[PiecewiseChoice]) -> None:
    """part[j,c,p] ≤ (max_p − min_p) · picks[j,c,p]."""

    @model.Constraint(model.piece)
    def in_piece(m: Any, j: int, c: int, p: int) -> Any:
        return m.part[j, c, p] <= _length(choices[j].pieces[c][p]) * m.picks[j, c, p]


def sizes_count_the_living(model: Any, choices: Sequence[PiecewiseChoice]) -> None:
    """Σ_{c' ≤ c} nodes[j,c'] = Σ_p (min_p · picks[j,c,p] + part[j,c,p])."""

    @model.Constraint(model.trainer, model.klass)
    def living(m: Any, j: int, c: int) -> Any:
        size = sum(
            piece.min_nodes * m.picks[j, c, p] + m.part[j, c, p] for p, piece in enumerate(choices[j].pieces[c])
        )
        return sum(m.nodes[j, longer_lived] for longer_lived in range(c + 1)) == size


def classes_suffice(model: Any, capacity: Sequence[int]) -> None:
    """Σ_j nodes[j,c] ≤ capacity_c."""

    @model.Constraint(model.klass)
    def suffices(m: Any, c: int) -> Any:
        return sum(m.nodes[j, c] for j in m.trainer) <= capacity[c]


def one_choice_each(model: Any, choices: Sequence[PiecewiseChoice]) -> None:
    """A trainer has nodes of one of its choices at most.

    With j over its choices and p(0) the piece of no node at all: Σ_j (1 − picks[j,·,p(0)]) ≤ 1. A trainer
    that has nodes has no other choice left, so this is about trainers without, for which no node is a piece.
    """
    whole = len(model.klass) - 1
    rows = [
        [j for j, choice in enumerate(choices) if choice.trainer == row] for row in range(choices[-1].trainer + 1)
    ]

    def gets_some(m: Any, j: int) -> Any:
        return 1 - sum(
            m.picks[j, whole, p] for p, piece in enumerate(choices[j].pieces[whole]) if piece.max_nodes == 0
        )

    @model.Constraint(pyo.RangeSet(0, len(rows) - 1))
    def one_choice(m: Any, row: int) -> Any:
        return sum(gets_some(m, j) for j in rows[row]) <= 1 if len(rows[row]) > 1 else pyo.Constraint.Skip


def no_migration(model: Any, choices: Sequence[PiecewiseChoice], capacity: Sequence[int]) -> None:
    """A trainer that grows keeps all its nodes, any other gets no new one.

    With C its nodes now and p over the pieces of its whole size that lie above C:
    C_jc · Σ_p picks[j,·,p] ≤ nodes[j,c] ≤ C_jc + Σ_p min(capacity_c − C_jc, max_p − C_j) · picks[j,·,p].
    The sum on the right is left out where a new node of the class would leave before it had booted, or is not of
    the choice.
    """
    whole = len(capacity) - 1

    def growth(m: Any, j: int) -> list[tuple[Piece, Any]]:
        now = sum(choices[j].held)
        pieces = enumerate(choices[j].pieces[whole])
        return [(piece, m.picks[j, whole, p]) for p, piece in pieces if piece.min_nodes > now]

    @model.Constraint(model.trainer, model.klass)
    def keeps(m: Any, j: int, c: int) -> Any:
        held = choices[j].held[c]
        return m.nodes[j, c] >= held * sum(pick for _, pick in growth(m, j)) if held else pyo.Constraint.Skip

    @model.Constraint(model.trainer, model.klass)
    def gains(m: Any, j: int, c: int) -> Any:
        held, now = choices[j].held[c], sum(choices[j].held)
        return m.nodes[j, c] <= held + sum(
            min(capacity[c] - held, piece.max_nodes - now) * pick
            for piece, pick in growth(m, j)
            if choices[j].joins[c]
        )


def growth_waits_for_boots(model: Any, choices: Sequence[PiecewiseChoice], capacity: Sequence[int]) -> None:
    """A trainer picks pieces of growing in all intervals, or in none.

    With p over those pieces: Σ_p picks[j,c,p] = Σ_p picks[j,·,p], on the right in its whole size.
    """
    whole = len(capacity) - 1

    def grown(m: Any, j: int, c: int) -> list[Any]:
        return [m.picks[j, c, p] for p, piece in enumerate(choices[j].pieces[c]) if piece.grown]

    @model.Constraint(model.trainer, model.klass)
    def waits(m: Any, j: int, c: int) -> Any:
        picks = grown(m, j, c)
        return sum(picks) == sum(grown(m, j, whole)) if picks and c < whole else pyo.Constraint.Skip


def ends_are_charged(model: Any, choices: Sequence[PiecewiseChoice], capacity: Sequence[int]) -> None:
    """A trainer with nodes of classes that are taken back together picks a piece that charges their end, once.

    With c the last of them, and p over the pieces that charge it:
    Σ_{c'} nodes[j,c'] ≤ Σ_p min(Σ_{c'} capacity_c', max_p) · picks[j,c,p].
    """

    @model.Constraint(model.trainer, model.klass)
    def hurts(m: Any, j: int, c: int) -> Any:
        pieces = choices[j].pieces[c]
        if not any(piece.evicted for piece in pieces):
            return pyo.Constraint.Skip
        together = range(choices[j].first_of_life[c], c + 1)
        there = sum(capacity[klass] for klass in together)
        return sum(m.nodes[j, klass] for klass in together) <= sum(
            min(there, piece.max_nodes) * m.picks[j, c, p] for p, piece in enumerate(pieces) if piece.evicted
        )


def value_is_maximal(model: Any, choices: Sequence[PiecewiseChoice]) -> None:
    """Max Σ_{j,c,p} (value_p · picks[j,c,p] + slope_p · part[j,c,p]) − Σ_{j,c} power_jc · nodes[j,c]."""
    worth = sum(
        piece.value * model.picks[j, c, p] + piece.slope * model.part[j, c, p]
        for j, choice in enumerate(choices)
        for c, pieces in enumerate(choice.pieces)
        for p, piece in enumerate(pieces)
    )
    power = sum(
        cost * model.nodes[j, c] for j, choice in enumerate(choices) for c, cost in enumerate(choice.power) if cost
    )
    model.value = pyo.Objective(expr=worth - power, sense=pyo.maximize)


def begin_with(
    solver: highspy.Highs, model: Any, start: Sequence[Sequence[int]], column: Mapping[int, int]
) -> None:
    """Have the search begin with an allocation; HiGHS finds the pieces that belong to it."""
    # Only the nodes: which pieces belong to them is a small model that HiGHS (1.16) solves before it begins.
    nodes = [
        (column[id(model.nodes[j, c])], count) for j, counts in enumerate(start) for c, count in enumerate(counts)
    ]
    if nodes:
        places, values = zip(*nodes, strict=True)
        solver.setSolution(len(nodes), np.array(places, dtype=np.int32), np.array(values, dtype=np.float64))


def _length(piece: Piece) -> int:
    return piece.max_nodes - piece.min_nodes


def highs_with(model: pyo.ConcreteModel) -> tuple[highspy.Highs, dict[int, int]]:
    """HiGHS with the model, and the column of each variable by the variable's id().

    Pyomo's own interface takes longer than all the rest.
    """
    solver, column = quiet_highs(), dict[int, int]()
    for variable in model.component_data_objects(pyo.Var):
        place = column[id(variable)] = len(column)
        solver.addVar(_or_inf(variable.lb, -1), _or_inf(variable.ub, 1))
        if not variable.is_continuous():
            solver.changeColIntegrality(place, highspy.HighsVarType.kInteger)
    (objective,) = model.component_data_objects(pyo.Objective, active=True)
    linear = generate_standard_repn(objective.expr, quadratic=False)
    solver.changeObjectiveSense(highspy.ObjSense.kMaximize)
    solver.changeObjectiveOffset(float(linear.constant))
    for variable, cost in zip(linear.linear_vars, linear.linear_coefs, strict=True):
        solver.changeColCost(column[id(variable)], cost)
    for row in model.component_data_objects(pyo.Constraint, active=True):
        least, body, largest = row.to_bounded_expression(evaluate_bounds=True)
        linear = generate_standard_repn(body, quadratic=False)
        lower, upper = _or_inf(least, -1) - linear.constant, _or_inf(largest, 1) - linear.constant
        places = np.array([column[id(variable)] for variable in linear.linear_vars], dtype=np.int32)
        solver.addRow(lower, upper, len(places), places, np.array(linear.linear_coefs, dtype=np.float64))
    return solver, column


def _or_inf(bound: float | None, sign: int) -> float:
    return sign * highspy.kHighsInf if bound is None else float(bound)
