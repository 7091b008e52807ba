r"""FreeTrain's mixed-integer programme at the level of node classes and sizes, stated in Pyomo, solved by HiGHS.

The published model decides for every pair of trainer and node. Nodes of one class are interchangeable, so
it has the same optimum to decide how many nodes of each class *c* each trainer *j* gets:

* ``nodes[j,c]``: nodes of class c for trainer j, integer. Classes are sorted by life; interval *c* is the
  time during which the nodes of classes 0 … c are alive and no others.
* ``picks[j,c,p]``: whether in interval c the size of trainer j lies in piece p of its value, binary.
* ``part[j,c,p]``: how far into that piece, 0 where it is not picked.
* ``hurt[j,c]``: whether the trainer loses nodes when class c is taken back, binary; ``loss[j,c]``: what of.

With one class this is a multiple-choice knapsack with one interval and no ``hurt``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyomo.environ as pyo
from pyomo.contrib.solver.common.results import SolutionStatus, TerminationCondition
from pyomo.contrib.solver.solvers.highs import Highs

from freetrain.core.supply import Counts
from freetrain.policies.solver.offer import Offer
from freetrain.policies.solver.pieces import Piece

RELATIVE_GAP = 1e-9
"""HiGHS stops where its best answer is proven to within this share of the bound."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What HiGHS found.

    Attributes:
        counts: nodes of each trainer by class, or None where it found no allocation in time.
        proven: whether it is the optimum.
        bound: upper bound on the value.
        said: HiGHS's own word for how it ended.
    """

    counts: Counts | None
    proven: bool
    bound: float
    said: str


def solve(offers: Sequence[Offer], capacity: Sequence[int], time_limit_s: float) -> Answer:
    """Allocation of largest total value.

    Args:
        offers: what each trainer may be given, shape (trainers,).
        capacity: nodes in each class, longest-lived class first.
        time_limit_s: wall seconds after which the best answer so far is taken.
    """
    model = state_model(offers, capacity)
    solver = Highs()
    results = solver.solve(
        model,
        time_limit=time_limit_s,
        threads=1,
        rel_gap=RELATIVE_GAP,
        load_solutions=False,
        raise_exception_on_nonoptimal_result=False,
        solver_options={"random_seed": 1},
    )
    condition = results.termination_condition
    found = results.solution_status in (SolutionStatus.feasible, SolutionStatus.optimal)
    counts = _counts(model, results) if found else None
    bound = float("inf") if results.objective_bound is None else float(results.objective_bound)
    proven = condition == TerminationCondition.convergenceCriteriaSatisfied
    return Answer(counts, proven, bound, str(condition.name))


def state_model(offers: Sequence[Offer], capacity: Sequence[int]) -> pyo.ConcreteModel:
    """The whole model."""
    model = pyo.ConcreteModel()
    _declare(model, offers, capacity)
    one_piece_per_interval(model, offers)
    sizes_lie_in_their_pieces(model, offers)
    sizes_count_the_living(model, offers)
    classes_suffice(model, capacity)
    if len(capacity) > 1:
        nobody_migrates(model, offers, capacity)
        evictions_cost(model, offers)
    value_is_maximal(model, offers)
    return model


def _declare(model: Any, offers: Sequence[Offer], capacity: Sequence[int]) -> None:
    model.trainer = pyo.RangeSet(0, len(offers) - 1)
    model.klass = pyo.RangeSet(0, len(capacity) - 1)
    model.piece = pyo.Set(
        initialize=[
            (j, c, p)
            for j, offer in enumerate(offers)
            for c, ps in enumerate(offer.pieces)
            for p in range(len(ps))
        ]
    )
    model.eviction = pyo.Set(
        initialize=[(j, c) for j, offer in enumerate(offers) for c, loss in enumerate(offer.eviction_loss) if loss]
    )
    model.nodes = pyo.Var(
        model.trainer, model.klass, domain=pyo.NonNegativeIntegers, bounds=lambda _, j, c: (0, capacity[c])
    )
    model.picks = pyo.Var(model.piece, domain=pyo.Binary)
    model.part = pyo.Var(model.piece, domain=pyo.NonNegativeReals)
    model.hurt = pyo.Var(model.eviction, domain=pyo.Binary)
    model.loss = pyo.Var(model.eviction, domain=pyo.NonNegativeReals)


def one_piece_per_interval(model: Any, offers: Sequence[Offer]) -> None:
    """Σ_p picks[j,c,p] = 1."""

    def one_piece(m: Any, j: int, c: int) -> Any:
        return sum(m.picks[j, c, p] for p in range(len(offers[j].pieces[c]))) == 1

    model.one_piece = pyo.Constraint(model.trainer, model.klass, rule=one_piece)


def sizes_lie_in_their_pieces(model: Any, offers: Sequence[Offer]) -> None:
    """part[j,c,p] ≤ (most_p − fewest_p) · picks[j,c,p]."""

    def in_piece(m: Any, j: int, c: int, p: int) -> Any:
        piece = offers[j].pieces[c][p]
        return m.part[j, c, p] <= (piece.most - piece.fewest) * m.picks[j, c, p]

    model.in_piece = pyo.Constraint(model.piece, rule=in_piece)


def sizes_count_the_living(model: Any, offers: Sequence[Offer]) -> None:
    """Σ_{c' ≤ c} nodes[j,c'] = Σ_p (fewest_p · picks[j,c,p] + part[j,c,p])."""

    def living(m: Any, j: int, c: int) -> Any:
        size = sum(
            piece.fewest * m.picks[j, c, p] + m.part[j, c, p] for p, piece in enumerate(offers[j].pieces[c])
        )
        return sum(m.nodes[j, longer_lived] for longer_lived in range(c + 1)) == size

    model.living = pyo.Constraint(model.trainer, model.klass, rule=living)


def classes_suffice(model: Any, capacity: Sequence[int]) -> None:
    """Σ_j nodes[j,c] ≤ capacity_c."""

    def suffices(m: Any, c: int) -> Any:
        return sum(m.nodes[j, c] for j in m.trainer) <= capacity[c]

    model.suffices = pyo.Constraint(model.klass, rule=suffices)


def nobody_migrates(model: Any, offers: Sequence[Offer], capacity: Sequence[int]) -> None:
    """A trainer that grows keeps all its nodes, any other gets no new one.

    With g_j = Σ picks of the pieces of the whole size above what j has now, and C its nodes now:
    C_jc · g_j ≤ nodes[j,c] ≤ C_jc + (capacity_c − C_jc) · g_j.
    """
    whole = len(capacity) - 1

    def grows(m: Any, j: int) -> Any:
        now = sum(offers[j].held)
        return sum(m.picks[j, whole, p] for p, piece in enumerate(offers[j].pieces[whole]) if piece.fewest > now)

    def keeps(m: Any, j: int, c: int) -> Any:
        held = offers[j].held[c]
        return pyo.Constraint.Skip if held == 0 else m.nodes[j, c] >= held * grows(m, j)

    model.keeps = pyo.Constraint(model.trainer, model.klass, rule=keeps)

    def gains(m: Any, j: int, c: int) -> Any:
        held = offers[j].held[c]
        return m.nodes[j, c] <= held + (capacity[c] - held) * grows(m, j)

    model.gains = pyo.Constraint(model.trainer, model.klass, rule=gains)


def evictions_cost(model: Any, offers: Sequence[Offer]) -> None:
    """A trainer with nodes of a class that is taken back is hurt once, whatever their number.

    nodes[j,c] ≤ M · hurt[j,c],  M = most nodes it can have;
    loss[j,c] ≥ (loss by size in interval c) − L · (1 − hurt[j,c]),  L = largest such loss.
    """

    def is_hurt(m: Any, j: int, c: int) -> Any:
        return m.nodes[j, c] <= offers[j].pieces[c][-1].most * m.hurt[j, c]

    model.is_hurt = pyo.Constraint(model.eviction, rule=is_hurt)

    def loses(m: Any, j: int, c: int) -> Any:
        pieces = offers[j].eviction_loss[c]
        largest = max(piece.largest for piece in pieces)
        loss = sum(_piece_value(m, j, c, p, piece) for p, piece in enumerate(pieces))
        return m.loss[j, c] >= loss - largest * (1 - m.hurt[j, c])

    model.loses = pyo.Constraint(model.eviction, rule=loses)


def value_is_maximal(model: Any, offers: Sequence[Offer]) -> None:
    """Max Σ_{j,c,p} (value_p · picks[j,c,p] + slope_p · part[j,c,p]) − Σ loss[j,c]."""
    gains = sum(
        _piece_value(model, j, c, p, piece)
        for j, offer in enumerate(offers)
        for c, pieces in enumerate(offer.pieces)
        for p, piece in enumerate(pieces)
    )
    model.value = pyo.Objective(expr=gains - sum(model.loss[key] for key in model.eviction), sense=pyo.maximize)


def _piece_value(model: Any, j: int, c: int, p: int, piece: Piece) -> Any:
    return piece.value * model.picks[j, c, p] + piece.slope * model.part[j, c, p]


def _counts(model: Any, results: Any) -> Counts:
    results.solution_loader.load_vars()
    trainers, classes = len(model.trainer), len(model.klass)
    flat = [model.nodes[j, c].value for j in range(trainers) for c in range(classes)]
    counts: Counts = np.rint(np.array(flat)).astype(np.int64).reshape(trainers, classes)
    return counts
