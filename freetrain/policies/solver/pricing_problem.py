r"""The pricing problem: the best column of each trainer type at given dual prices.

At prices :math:`\lambda_c` the trainers do not compete. A trainer with :math:`n_c` nodes of class *c*,
classes sorted by life, longest first, and :math:`N_c = n_0 + \dots + n_c`, is worth

.. math::
    -\mathrm{switch}(N) + \sum_c \bigl(\Delta_c\,o(N_c) - [n_c > 0]\,\ell_c\,o(N_c) - (\lambda_c + p_c)\,n_c\bigr)

(``freetrain.core.value``; :math:`\ell_c` is what a known end costs where the class is taken back, else 0;
:math:`p_c` is what a node's electricity counts). Trainers do not migrate, so each choice of a trainer is two rows
of a dynamic programme over the classes (``pricing_dp.py``): it grows (keeps all nodes and gets more), or it does
not (gets none and may lose some). If it grows, time counts from when new nodes have booted: what comes before is
the same whatever it gets, and it gets no node that leaves until then.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from freetrain.core.problem import Counts
from freetrain.core.terms import Sizes
from freetrain.core.value import UsefulTime
from freetrain.policies.solver.pricing_dp import (
    ChangeModes,
    DPStructure,
    Prices,
    PricingDP,
    Rows,
    prepare_dp,
    solve_dp,
)
from freetrain.policies.solver.trainer_types import BranchLimits, TrainerTypes

Losses = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class ColumnPool:
    """Columns of one trainer type.

    Attributes:
        counts: nodes of each class, shape (columns, classes).
        loss: reduced cost of each: how much less it is worth than the type's best column, shape (columns,).
    """

    counts: Counts
    loss: Losses


@dataclass(frozen=True, slots=True)
class Duals:
    """Dual prices of the master's rows.

    Attributes:
        nodes: price of one node of each class, shape (classes,).
        growth: price of one growing trainer of each group, shape (groups,); negative where a branch wants more.
    """

    nodes: Prices
    growth: NDArray[np.float64]

    def growth_by_type(self, trainers: TrainerTypes) -> NDArray[np.float64]:
        """What one trainer of each type pays in all to grow, shape (types,)."""
        single, together = np.split(self.growth, [len(trainers.number)])
        return np.asarray(single + together @ trainers.groups[len(single) :])

    def bound(self, trainers: TrainerTypes, pricing: PricingResult, limits: BranchLimits) -> float:
        """The Lagrangian bound: no plan within the limits is worth more."""
        paid = np.maximum(self.growth * limits.min_growing, self.growth * limits.max_growing).sum()
        return float(self.nodes @ trainers.capacity + paid + pricing.value @ trainers.number)


def solve_pricing(
    trainers: TrainerTypes, duals: Duals, limits: BranchLimits | None = None, structure: DPStructure | None = None
) -> PricingResult:
    """The best column of each type at these prices; its value is -inf where the limits allow none.

    Args:
        trainers: the trainers.
        duals: the prices.
        limits: of the branch.
        structure: of the modes that may be part of a better plan; None: all modes.
    """
    if structure is None:
        structure = trainers.cached(
            ("structure", trainers.capacity.tobytes()), lambda: prepare_dp(trainers, _change_modes(trainers))
        )
    dp = solve_dp(structure, duals.nodes, limits)
    modes = dp.modes
    type_of_row = trainers.type_of[modes.choices]
    growth = modes.grows * duals.growth_by_type(trainers)[type_of_row]
    value = dp.final.max(axis=1) - growth
    best = _best_rows(type_of_row, value, len(trainers.number))
    return PricingResult(value[best], best, type_of_row, value, growth, dp)


def _best_rows(type_of_row: Sizes, value: NDArray[np.float64], types: int) -> Rows:
    """The best row of each type, the first of equals."""
    begin = np.searchsorted(type_of_row, np.arange(types))
    best = np.flatnonzero(value == np.maximum.reduceat(value, begin)[type_of_row])
    return np.asarray(best[np.searchsorted(type_of_row[best], np.arange(types))])


def _change_modes(trainers: TrainerTypes) -> ChangeModes:
    """Two rows for each choice; growing only where all that it has is still there."""
    held, capacity, booted = trainers.held, trainers.capacity, trainers.booted or trainers.now
    every = np.arange(len(held))
    grow = np.flatnonzero((held <= capacity).all(axis=1))
    order = np.argsort(np.concatenate([grow, every]), kind="stable")

    def both(growing: Any, staying: Any) -> Any:
        return np.concatenate([growing[grow], staying])[order]

    return ChangeModes(
        both(every, every),
        both(np.ones(len(held), dtype=bool), np.zeros(len(held), dtype=bool)),
        both(held, np.zeros_like(held)),
        both((capacity - held) * trainers.joins, np.minimum(held, capacity)),
        UsefulTime(
            both(booted.alone_s, trainers.now.alone_s),
            both(booted.end_s, trainers.now.end_s),
            both(trainers.now.power, trainers.now.power),
        ),
        both(trainers.before, np.zeros(len(held))),
    )


@dataclass(frozen=True)
class PricingResult:
    """The best columns at some prices.

    Attributes:
        value: value of the best column of each type, prices paid, shape (types,).
        best: row of the best column, likewise.
        type_of_row: type of each row of the programme, shape (rows,).
        value_of_row: value of the best column of each row, likewise.
        growth: what each row pays for growing, likewise.
    """

    value: NDArray[np.float64]
    best: Rows
    type_of_row: Sizes
    value_of_row: NDArray[np.float64]
    growth: NDArray[np.float64]
    dp: PricingDP

    @cached_property
    def counts(self) -> Counts:
        """The best column of each type, shape (types, classes)."""
        return self.dp.best_columns(self.best)

    def structure_within(self, trainers: TrainerTypes, slack: float) -> DPStructure:
        """The structure of the modes whose best column has a reduced cost of at most ``slack``."""
        rows = np.flatnonzero(self.value_of_row >= self.value[self.type_of_row] - slack)
        return prepare_dp(trainers, self.dp.modes.of(rows))

    def enumerate_columns(
        self, trainers: TrainerTypes, limits: BranchLimits, slack: float, max_columns: int
    ) -> list[ColumnPool] | None:
        """All columns of each type with a reduced cost of at most ``slack``; None: there are too many."""
        modes = self.dp.modes
        groups = trainers.groups
        all_grow = groups[limits.min_growing == trainers.in_group].any(axis=0)
        none_grows = groups[limits.max_growing == 0].any(axis=0)
        may = ~np.where(modes.grows, none_grows[self.type_of_row], all_grow[self.type_of_row])
        may &= np.isfinite(self.value)[self.type_of_row]
        least = np.where(may, self.value[self.type_of_row] - slack + self.growth, np.inf)
        found = self.dp.columns_worth_at_least(least, max_columns)
        if found is None:
            return None
        rows, counts, value = found
        type_of_row = self.type_of_row[rows]
        loss = np.maximum(self.value[type_of_row] - value + self.growth[rows], 0.0)
        return [
            ColumnPool(counts[type_of_row == type_id], loss[type_of_row == type_id])
            for type_id in range(len(self.value))
        ]
