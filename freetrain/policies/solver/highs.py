r"""FreeTrain's mixed-integer programme at the level of node classes and sizes, stated in Pyomo, solved by HiGHS.

The published model decides for every pair of trainer and node. Nodes of one class are interchangeable, so
it has the same optimum to decide how many nodes of each class *c* each trainer *j* gets:

* ``nodes[j,c]``: nodes of class c for trainer j, integer. Classes are sorted by life; interval *c* is the
  time during which the nodes of classes 0 … c are alive and no others. It has no length where the next class, of
  another kind of node, lives as long.
* ``picks[j,c,p]``: whether in interval c the size of trainer j lies in piece p of its value, binary.
* ``part[j,c,p]``: how far into that piece, 0 where it is not picked.

A class that is taken back before the horizon hurts whoever has some of its nodes: there each piece comes
twice, with and without that loss. Where new nodes must boot, time counts for who grows from when they have: there
pieces come once for who grows and once for who does not. With one class this is a multiple-choice knapsack.

A trainer that may have one of several kinds of nodes stands here once for each of these choices: *j* is a choice
then, and all but one of a trainer's choices get no node.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import highspy
import numpy as np
import pyomo.environ as pyo
from numpy.typing import NDArray

from freetrain.core.problem import Counts
from freetrain.policies.quiet_highs import quiet_highs
from freetrain.policies.solver.answer import Answer
from freetrain.policies.solver.menu import Menu
from freetrain.policies.solver.passing import lp_of
from freetrain.policies.solver.pieces import Piece

RELATIVE_GAP = 1e-9
"""HiGHS stops where its best answer is proven to within this share of the bound."""


def solve(
    menus: Sequence[Menu], capacity: Sequence[int], presolve: bool = True, *, left_s: Callable[[], float]
) -> Answer:
    """Allocation of largest total value, or the best one found in time.

    Args:
        menus: what each trainer may be given, one after the other, each with one menu for each of its choices.
        capacity: nodes in each class, longest-lived class first.
        presolve: whether HiGHS may simplify the model first.
        left_s: wall seconds that are left; stating the model takes its share of them.
    """
    model = state_model(menus, capacity)
    lp, column = lp_of(model)
    solver = quiet_highs()
    solver.passModel(lp)
    solver.setOptionValue("mip_rel_gap", RELATIVE_GAP)
    solver.setOptionValue("presolve", "choose" if presolve else "off")
    solver.setOptionValue("time_limit", max(left_s(), 0.0))
    solver.run()
    status, info = solver.getModelStatus(), solver.getInfo()
    found = info.primal_solution_status == highspy.SolutionStatus.kSolutionStatusFeasible
    values = np.asarray(solver.getSolution().col_value)
    counts = _counts(model, menus, values, column) if found else None
    proven = status == highspy.HighsModelStatus.kOptimal
    out_of_time = status == highspy.HighsModelStatus.kTimeLimit
    bound = float(info.mip_dual_bound) if np.isfinite(info.mip_dual_bound) else float("inf")
    return Answer(counts, proven, bound, solver.modelStatusToString(status), out_of_time)


def state_model(menus: Sequence[Menu], capacity: Sequence[int]) -> pyo.ConcreteModel:
    """The whole model."""
    model = pyo.ConcreteModel()
    _declare(model, menus, capacity)
    one_piece_per_interval(model, menus)
    sizes_lie_in_their_pieces(model, menus)
    sizes_count_the_living(model, menus)
    classes_suffice(model, capacity)
    if len(capacity) > 1:
        one_choice_each(model, menus)
        nobody_migrates(model, menus, capacity)
        who_grows_waits_for_boots(model, menus, capacity)
        ends_hurt(model, menus, capacity)
    value_is_maximal(model, menus)
    return model


def _declare(model: Any, menus: Sequence[Menu], capacity: Sequence[int]) -> None:
    model.trainer = pyo.RangeSet(0, len(menus) - 1)
    model.klass = pyo.RangeSet(0, len(capacity) - 1)
    model.piece = pyo.Set(
        initialize=[
            (j, c, p) for j, menu in enumerate(menus) for c, ps in enumerate(menu.pieces) for p in range(len(ps))
        ]
    )
    model.nodes = pyo.Var(
        model.trainer, model.klass, domain=pyo.NonNegativeIntegers, bounds=lambda _, j, c: (0, capacity[c])
    )
    model.picks = pyo.Var(model.piece, domain=pyo.Binary)
    # Without bounds of their own, HiGHS 1.15.1 can loop for ever in presolve, whatever its time limit.
    model.part = pyo.Var(model.piece, bounds=lambda _, j, c, p: (0, _length(menus[j].pieces[c][p])))


def one_piece_per_interval(model: Any, menus: Sequence[Menu]) -> None:
    """Σ_p picks[j,c,p] = 1."""

    def one_piece(m: Any, j: int, c: int) -> Any:
        return sum(m.picks[j, c, p] for p in range(len(menus[j].pieces[c]))) == 1

    model.one_piece = pyo.Constraint(model.trainer, model.klass, rule=one_piece)


def sizes_lie_in_their_pieces(model: Any, menus: Sequence[Menu]) -> None:
    """part[j,c,p] ≤ (most_p − fewest_p) · picks[j,c,p]."""

    def in_piece(m: Any, j: int, c: int, p: int) -> Any:
        return m.part[j, c, p] <= _length(menus[j].pieces[c][p]) * m.picks[j, c, p]

    model.in_piece = pyo.Constraint(model.piece, rule=in_piece)


def sizes_count_the_living(model: Any, menus: Sequence[Menu]) -> None:
    """Σ_{c' ≤ c} nodes[j,c'] = Σ_p (fewest_p · picks[j,c,p] + part[j,c,p])."""

    def living(m: Any, j: int, c: int) -> Any:
        size = sum(piece.fewest * m.picks[j, c, p] + m.part[j, c, p] for p, piece in enumerate(menus[j].pieces[c]))
        return sum(m.nodes[j, longer_lived] for longer_lived in range(c + 1)) == size

    model.living = pyo.Constraint(model.trainer, model.klass, rule=living)


def classes_suffice(model: Any, capacity: Sequence[int]) -> None:
    """Σ_j nodes[j,c] ≤ capacity_c."""

    def suffices(m: Any, c: int) -> Any:
        return sum(m.nodes[j, c] for j in m.trainer) <= capacity[c]

    model.suffices = pyo.Constraint(model.klass, rule=suffices)


def one_choice_each(model: Any, menus: Sequence[Menu]) -> None:
    """A trainer has nodes of one of its choices at most.

    With j over its choices and p(0) the piece of no node at all: Σ_j (1 − picks[j,·,p(0)]) ≤ 1. Who has nodes has
    no other choice left, so this is about those who have none, to whom no node at all is a piece of its own.
    """
    whole = len(model.klass) - 1
    rows = [[j for j, menu in enumerate(menus) if menu.trainer == row] for row in range(menus[-1].trainer + 1)]

    def gets_some(m: Any, j: int) -> Any:
        return 1 - sum(m.picks[j, whole, p] for p, piece in enumerate(menus[j].pieces[whole]) if piece.most == 0)

    def one_choice(m: Any, row: int) -> Any:
        return sum(gets_some(m, j) for j in rows[row]) <= 1 if len(rows[row]) > 1 else pyo.Constraint.Skip

    model.one_choice = pyo.Constraint(pyo.RangeSet(0, len(rows) - 1), rule=one_choice)


def nobody_migrates(model: Any, menus: Sequence[Menu], capacity: Sequence[int]) -> None:
    """A trainer that grows keeps all its nodes, any other gets no new one.

    With C its nodes now and p over the pieces of its whole size that lie above C:
    C_jc · Σ_p picks[j,·,p] ≤ nodes[j,c] ≤ C_jc + Σ_p min(capacity_c − C_jc, most_p − C_j) · picks[j,·,p].
    The sum on the right is left out where a new node of the class would leave before it had booted, or is not of
    the choice.
    """
    whole = len(capacity) - 1

    def growth(m: Any, j: int) -> list[tuple[Piece, Any]]:
        now = sum(menus[j].held)
        pieces = enumerate(menus[j].pieces[whole])
        return [(piece, m.picks[j, whole, p]) for p, piece in pieces if piece.fewest > now]

    def keeps(m: Any, j: int, c: int) -> Any:
        held = menus[j].held[c]
        return m.nodes[j, c] >= held * sum(pick for _, pick in growth(m, j)) if held else pyo.Constraint.Skip

    def gains(m: Any, j: int, c: int) -> Any:
        held, now = menus[j].held[c], sum(menus[j].held)
        return m.nodes[j, c] <= held + sum(
            min(capacity[c] - held, piece.most - now) * pick for piece, pick in growth(m, j) if menus[j].joins[c]
        )

    model.keeps = pyo.Constraint(model.trainer, model.klass, rule=keeps)
    model.gains = pyo.Constraint(model.trainer, model.klass, rule=gains)


def who_grows_waits_for_boots(model: Any, menus: Sequence[Menu], capacity: Sequence[int]) -> None:
    """In all intervals a trainer picks pieces for who grows, or in none.

    With p over those pieces: Σ_p picks[j,c,p] = Σ_p picks[j,·,p], on the right in its whole size.
    """
    whole = len(capacity) - 1

    def grown(m: Any, j: int, c: int) -> list[Any]:
        return [m.picks[j, c, p] for p, piece in enumerate(menus[j].pieces[c]) if piece.grown]

    def waits(m: Any, j: int, c: int) -> Any:
        picks = grown(m, j, c)
        return sum(picks) == sum(grown(m, j, whole)) if picks and c < whole else pyo.Constraint.Skip

    model.waits = pyo.Constraint(model.trainer, model.klass, rule=waits)


def ends_hurt(model: Any, menus: Sequence[Menu], capacity: Sequence[int]) -> None:
    """Who has nodes of classes that are taken back together picks a piece that charges their end, once.

    With c the last of them, and p over the pieces that charge it:
    Σ_{c'} nodes[j,c'] ≤ Σ_p min(Σ_{c'} capacity_c', most_p) · picks[j,c,p].
    """

    def hurts(m: Any, j: int, c: int) -> Any:
        pieces = menus[j].pieces[c]
        if not any(piece.evicted for piece in pieces):
            return pyo.Constraint.Skip
        together = range(menus[j].first_of_life[c], c + 1)
        there = sum(capacity[each] for each in together)
        return sum(m.nodes[j, each] for each in together) <= sum(
            min(there, piece.most) * m.picks[j, c, p] for p, piece in enumerate(pieces) if piece.evicted
        )

    model.hurts = pyo.Constraint(model.trainer, model.klass, rule=hurts)


def value_is_maximal(model: Any, menus: Sequence[Menu]) -> None:
    """Max Σ_{j,c,p} (value_p · picks[j,c,p] + slope_p · part[j,c,p]) − Σ_{j,c} power_jc · nodes[j,c]."""
    worth = sum(
        piece.value * model.picks[j, c, p] + piece.slope * model.part[j, c, p]
        for j, menu in enumerate(menus)
        for c, pieces in enumerate(menu.pieces)
        for p, piece in enumerate(pieces)
    )
    power = sum(
        each * model.nodes[j, c] for j, menu in enumerate(menus) for c, each in enumerate(menu.power) if each
    )
    model.value = pyo.Objective(expr=worth - power, sense=pyo.maximize)


def _length(piece: Piece) -> int:
    return piece.most - piece.fewest


def _counts(model: Any, menus: Sequence[Menu], values: NDArray[np.float64], column: Mapping[int, int]) -> Counts:
    counts = np.zeros((menus[-1].trainer + 1, len(model.klass)))
    for j, menu in enumerate(menus):
        counts[menu.trainer] += [values[column[id(model.nodes[j, c])]] for c in model.klass]
    return np.rint(counts).astype(np.int64)
