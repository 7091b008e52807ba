r"""Column generation: the master, which combines known columns, and the pricing problem, which finds better ones.

A *column* is what one trainer of a type gets: nodes of each class. The master is a linear programme with a weight
for each column, how many trainers get it: the weights of a type add up to its trainers, and the nodes suffice. It
is solved by HiGHS, its duals are the prices of the pricing problem, whose best columns at these prices are added.

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

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import highspy
import numpy as np
from numpy.typing import NDArray

from freetrain.core.problem import Counts
from freetrain.core.terms import Sizes, read_only
from freetrain.core.value import UsefulTime
from freetrain.policies.binary_programme import quiet_highs
from freetrain.policies.solver.pricing_dp import (
    ChangeModes,
    DPStructure,
    DualPrices,
    PricingDP,
    Rows,
    prepare_dp,
    solve_dp,
)
from freetrain.policies.solver.trainer_types import BranchLimits, TrainerTypes

LossArray = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class ColumnPool:
    """Columns of one trainer type.

    Attributes:
        counts: nodes of each class, shape (columns, classes).
        loss: reduced cost of each: how much less it is worth than the type's best column, shape (columns,).
    """

    counts: Counts
    loss: LossArray


@dataclass(frozen=True, slots=True)
class Duals:
    """Dual prices of the master's rows.

    Attributes:
        nodes: price of one node of each class, shape (classes,).
        growth: price of one growing trainer of each group, shape (groups,); negative where a branch wants more.
    """

    nodes: DualPrices
    growth: NDArray[np.float64]


def solve_pricing(
    trainers: TrainerTypes, duals: Duals, limits: BranchLimits, structure: DPStructure | None = None
) -> PricingResult:
    """The best column of each type at these prices within the limits, and the bound that the prices prove.

    ``structure`` is of the modes that may be part of a better plan; None: all modes.
    """
    if structure is None:
        structure = trainers.cached(
            ("structure", trainers.capacity.tobytes()), lambda: prepare_dp(trainers, _change_modes(trainers))
        )
    dp = solve_dp(structure, duals.nodes, limits)
    modes = dp.modes
    type_of_row = trainers.type_of[modes.choices]
    single, together = np.split(duals.growth, [len(trainers.number)])
    # What a trainer of each type pays in all to grow: for its type, and for the groups that it is in.
    growth_of_type = single + together @ trainers.groups[len(single) :]
    growth = modes.grows * growth_of_type[type_of_row]
    value = dp.final.max(axis=1) - growth
    best = _best_rows(type_of_row, value, len(trainers.number))
    paid = np.maximum(duals.growth * limits.min_growing, duals.growth * limits.max_growing).sum()
    bound = float(duals.nodes @ trainers.capacity + paid + value[best] @ trainers.number)
    return PricingResult(trainers, limits, bound, duals, value[best], best, type_of_row, value, growth, dp)


def _best_rows(type_of_row: Sizes, value: NDArray[np.float64], types: int) -> Rows:
    begin = np.searchsorted(type_of_row, np.arange(types))
    # The first of equals: the same problem has the same answer.
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
    """The best columns of trainers at some prices, within some limits.

    Attributes:
        bound: the Lagrangian bound: no plan within the limits is worth more.
        duals: the prices, which prove it.
        value: value of the best column of each type, prices paid, shape (types,); -inf: the limits allow none.
        best: row of the best column, likewise.
        type_of_row: type of each row of the programme, shape (rows,).
        value_of_row: value of the best column of each row, likewise.
        growth: price that each row pays for growing, likewise.
    """

    trainers: TrainerTypes
    limits: BranchLimits
    bound: float
    duals: Duals
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

    def structure_within(self, slack: float) -> DPStructure:
        """The structure of the modes whose best column has a reduced cost of at most ``slack``."""
        rows = np.flatnonzero(self.value_of_row >= self.value[self.type_of_row] - slack)
        return prepare_dp(self.trainers, self.dp.modes.of(rows))

    def enumerate_columns(self, slack: float, max_columns: int) -> list[ColumnPool] | None:
        """All columns of each type with a reduced cost of at most ``slack``; None: there are too many."""
        modes, groups = self.dp.modes, self.trainers.groups
        all_grow = groups[self.limits.min_growing == self.trainers.in_group].any(axis=0)
        none_grows = groups[self.limits.max_growing == 0].any(axis=0)
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


ColumnPlan = list[Counts]
"""Nodes of each trainer, type by type, each of shape (trainers of the type, classes)."""
_PRIMAL = 4
"""HiGHS's value of ``simplex_strategy`` for the primal simplex method."""
Multiplicities = NDArray[np.int64]
"""Number of trainers that get each column, shape (columns,)."""
EXACT = 1e-9
"""Relative difference of values that counts as equality."""
_MAX_ROUNDS = 200
"""Rounds of column generation; it converges long before."""
Clock = Callable[[], float]
"""Wall seconds that are left."""


class Master:
    """The restricted master: the columns known so far, and HiGHS, which combines them.

    Its rows: one for each type (its trainers), one for each class (its nodes), one for each group (its growing
    trainers, bounded by branches). Its first columns are slacks of the last rows, one for each group.
    """

    def __init__(self, trainers: TrainerTypes) -> None:
        self.trainers = trainers
        self._held_nodes = trainers.held_by_type.sum(axis=1).tolist()
        self._position: dict[tuple[int, bytes], int] = {}
        self._type_ids: list[int] = []
        self._counts: list[Counts] = []
        self._sizes: list[Counts] = []
        self._column_choices: list[tuple[int, int]] = []
        self._values: list[float] = []
        self._arrays: dict[str, NDArray[Any]] = {}
        self._growth_bounds: dict[int, list[float]] = {}
        self._highs = quiet_highs()
        # The primal method: new columns and other costs leave the last basis feasible, though not optimal.
        self._highs.setOptionValue("simplex_strategy", _PRIMAL)
        self._highs.setOptionValue("primal_simplex_bound_perturbation_multiplier", 0.0)
        self._highs.changeObjectiveSense(highspy.ObjSense.kMaximize)
        no_columns = np.array([], np.int32), np.array([])
        for number in trainers.number.tolist():
            self._highs.addRow(number, number, 0, *no_columns)
        for nodes in trainers.capacity.tolist():
            self._highs.addRow(-highspy.kHighsInf, nodes, 0, *no_columns)
        rows = self._growth_rows = len(trainers.number) + len(trainers.capacity) + np.arange(len(trainers.groups))
        self._growth_rows_by_type = [rows[of_type] for of_type in trainers.groups.T]
        for row, number in zip(rows.tolist(), trainers.in_group.tolist(), strict=True):
            self._highs.addRow(-highspy.kHighsInf, highspy.kHighsInf, 0, *no_columns)
            # Stands for trainers that a branch wants to grow and that cannot, so that the master stays feasible.
            self._highs.addCol(-1.0, 0.0, number, 1, np.array([row]), np.array([1.0]))

    def __len__(self) -> int:
        return len(self._type_ids)

    @property
    def type_ids(self) -> NDArray[np.int64]:
        """Type of each column, shape (columns,)."""
        return self._array("type_ids", self._type_ids)

    @property
    def values(self) -> NDArray[np.float64]:
        """Value of each column, shape (columns,)."""
        return self._array("values", self._values)

    @property
    def sizes(self) -> Counts:
        """Sizes until each time at which nodes leave (``TrainerTypes.sizes_of``), shape (columns, times)."""
        return self._array("sizes", self._sizes)

    @property
    def counts(self) -> Counts:
        """Nodes of each class, shape (columns, classes)."""
        return self._array("counts", self._counts)

    def add_all(self, counts: Counts) -> bool:
        """Add one column of each type; whether any was new."""
        return sum(self.add(type_id, column) for type_id, column in enumerate(counts)) > 0

    def add(self, type_id: int, column: Counts) -> bool:
        """Add a column; whether it was new. An impossible one is left out."""
        key = type_id, column.tobytes()
        if key in self._position:
            return False
        impossible = column.sum() >= self.trainers.worth.shape[1] or (column > self.trainers.capacity).any()
        value = -np.inf if impossible else float(self.trainers.values_of(type_id, column))
        if value == -np.inf:
            return False
        # Many columns are added between two uses: arrays of them are made when they are asked for.
        self._arrays.clear()
        self._position[key] = len(self)
        self._type_ids.append(type_id)
        self._counts.append(column)
        self._sizes.append(self.trainers.sizes_of(column))
        self._column_choices += [
            (len(self._type_ids) - 1, choice) for choice in self.trainers.choices_covering(type_id, column)
        ]
        self._values.append(value)
        taken = np.flatnonzero(column)
        grows = self._growth_rows_by_type[type_id] if column.sum() > self._held_nodes[type_id] else []
        rows = np.concatenate([[type_id], taken + len(self.trainers.number), grows]).astype(np.int32)
        number, ones = float(self.trainers.number[type_id]), np.ones(len(grows))
        self._highs.addCol(value, 0.0, number, len(rows), rows, np.concatenate([[1.0], column[taken], ones]))
        return True

    def relax(self) -> tuple[float, Duals, NDArray[np.float64]]:
        """Solve the relaxation: its value, its duals, and the weight of each column."""
        self._highs.run()
        solution, types, groups = self._highs.getSolution(), len(self.trainers.number), len(self._growth_rows)
        nodes, growth = np.split(np.array(solution.row_dual[types:]), [len(self.trainers.capacity)])
        # Rounding leaves duals a little below 0, and with a negative price L would not be a bound.
        duals = Duals(np.maximum(nodes, 0.0), growth)
        return self._highs.getInfo().objective_function_value, duals, np.array(solution.col_value[groups:])

    def apply_limits(self, limits: BranchLimits) -> None:
        """Set a branch's limits: columns outside of them cost more than all others are worth."""
        columns, choices = self._array("choices", self._column_choices).T
        within = np.zeros(len(self), dtype=bool)
        within[columns[limits.allow(choices, self.sizes[columns])]] = True
        values = self.values
        penalty = 2 * float(np.abs(values).max() * self.trainers.number.sum())
        # Slacks of growth cost as much: they stand for a branch that cannot be fulfilled.
        never = np.full(len(self._growth_rows), -penalty)
        costs = np.concatenate([never, np.where(within, values, values - penalty)])
        self._highs.changeColsCost(len(costs), np.arange(len(costs), dtype=np.int32), costs)
        # A limit that limits nothing must have no price: with one it would weaken the bound.
        lower = np.where(limits.min_growing > 0, limits.min_growing, -highspy.kHighsInf)
        upper = np.where(limits.max_growing < self.trainers.in_group, limits.max_growing, highspy.kHighsInf)
        for row, *bounds in zip(self._growth_rows.tolist(), lower.tolist(), upper.tolist(), strict=True):
            # A call to HiGHS for each row costs more than the comparison.
            if bounds != self._growth_bounds.get(row):
                self._highs.changeRowBounds(row, *bounds)
                self._growth_bounds[row] = bounds

    def value_within(self, limits: BranchLimits) -> float:
        """The relaxation's value within these limits, which stay set; a lower bound of the branch's own bound."""
        self.apply_limits(limits)
        self._highs.run()
        return float(self._highs.getInfo().objective_function_value)

    def plan_of(self, multiplicities: Multiplicities) -> ColumnPlan:
        """The plan in which so many trainers get each column."""
        chosen = np.flatnonzero(multiplicities)
        type_of = self.type_ids[chosen]
        of_type = [
            np.repeat(chosen[type_of == type_id], multiplicities[chosen[type_of == type_id]])
            for type_id in range(len(self.trainers.number))
        ]
        counts = self.counts
        return [counts[columns] for columns in of_type]

    def _array(self, name: str, known: list[Any]) -> NDArray[Any]:
        if name not in self._arrays:
            self._arrays[name] = read_only(np.array(known))
        return self._arrays[name]


def generate_columns(
    master: Master,
    limits: BranchLimits,
    left_s: Clock,
    good_enough: float = -np.inf,
    give_up_at: float = np.inf,
    structure: DPStructure | None = None,
    *,
    tail_share: float = 0.0,
) -> PricingResult:
    """Add columns until the pricing problem finds none that is better; the pricing with the best bound.

    Args:
        master: master to which columns are added.
        limits: limits of the branch.
        left_s: wall seconds that are left.
        good_enough: stop at a bound that is as low as this.
        give_up_at: stop where the bound cannot come below this.
        structure: as for ``solve_pricing``.
        tail_share: stop where the bound can fall by no more than this share of its distance from ``good_enough``,
            since the last rounds of column generation gain little (tailing off).
    """
    master.apply_limits(limits)
    best = None
    for _ in range(_MAX_ROUNDS):
        worth, duals, _ = master.relax()
        pricing = solve_pricing(master.trainers, duals, limits, structure)
        # Bounds of column generation do not fall steadily: the best one is kept.
        if best is None or pricing.bound < best.bound:
            best = pricing
        near = max(EXACT * max(1.0, abs(worth)), tail_share * (best.bound - good_enough) if tail_share else 0.0)
        if best.bound <= max(good_enough, worth + near) or worth >= give_up_at:
            break
        # No new column: the relaxation is solved, but for rounding errors of the duals.
        if not master.add_all(pricing.counts) or left_s() <= 0:
            break
    assert best is not None
    return best
