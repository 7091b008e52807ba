"""Column generation: the master, which combines known columns, and the loop that adds better ones.

A *column* is what one trainer of a type gets: nodes of each class. The master is a linear programme with a weight
for each column, how many trainers get it: the weights of a type add up to its trainers, and the nodes suffice. It
is solved by HiGHS, its duals are the prices of the pricing problem, and the best columns at these prices are
added.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import highspy
import numpy as np
from numpy.typing import NDArray

from freetrain.core.problem import Counts
from freetrain.core.terms import read_only
from freetrain.policies.binary_programme import quiet_highs
from freetrain.policies.solver.pricing_dp import DPStructure
from freetrain.policies.solver.pricing_problem import Duals, PricingResult, solve_pricing
from freetrain.policies.solver.trainer_types import BranchLimits, TrainerTypes

Plan = list[Counts]
"""For each type what each of its trainers gets, shape (trainers of the type, classes)."""
_PRIMAL = 4
"""HiGHS's value of ``simplex_strategy`` for the primal simplex method."""
Multiplicities = NDArray[np.int64]
"""How many trainers get each column, shape (columns,)."""
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
        self._trainers = trainers
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
        impossible = column.sum() >= self._trainers.worth.shape[1] or (column > self._trainers.capacity).any()
        value = -np.inf if impossible else float(self._trainers.values_of(type_id, column))
        if value == -np.inf:
            return False
        self._arrays.clear()
        self._position[key] = len(self)
        self._type_ids.append(type_id)
        self._counts.append(column)
        self._sizes.append(self._trainers.sizes_of(column))
        self._column_choices += [
            (len(self._type_ids) - 1, choice) for choice in self._trainers.choices_covering(type_id, column)
        ]
        self._values.append(value)
        taken = np.flatnonzero(column)
        grows = self._growth_rows_by_type[type_id] if column.sum() > self._held_nodes[type_id] else []
        rows = np.concatenate([[type_id], taken + len(self._trainers.number), grows]).astype(np.int32)
        number, ones = float(self._trainers.number[type_id]), np.ones(len(grows))
        self._highs.addCol(value, 0.0, number, len(rows), rows, np.concatenate([[1.0], column[taken], ones]))
        return True

    def relax(self) -> tuple[float, Duals, NDArray[np.float64]]:
        """Solve the relaxation: its value, its duals, and the weight of each column."""
        self._highs.run()
        solution, types, groups = self._highs.getSolution(), len(self._trainers.number), len(self._growth_rows)
        nodes, growth = np.split(np.array(solution.row_dual[types:]), [len(self._trainers.capacity)])
        # Rounding leaves duals a little below 0, and with a negative price L would not be a bound.
        duals = Duals(np.maximum(nodes, 0.0), growth)
        return self._highs.getInfo().objective_function_value, duals, np.array(solution.col_value[groups:])

    def apply_limits(self, limits: BranchLimits) -> None:
        """Set a branch's limits: columns outside of them cost more than all others are worth."""
        columns, choices = self._array("choices", self._column_choices).T
        within = np.zeros(len(self), dtype=bool)
        within[columns[limits.allow(choices, self.sizes[columns])]] = True
        values = self.values
        penalty = 2 * float(np.abs(values).max() * self._trainers.number.sum())
        # Slacks of growth cost as much: they stand for a branch that cannot be fulfilled.
        never = np.full(len(self._growth_rows), -penalty)
        self._highs.changeColsCost(
            *self._all_columns(), np.concatenate([never, np.where(within, values, values - penalty)])
        )
        # A limit that limits nothing must have no price: with one it would weaken the bound.
        lower = np.where(limits.min_growing > 0, limits.min_growing, -highspy.kHighsInf)
        upper = np.where(limits.max_growing < self._trainers.in_group, limits.max_growing, highspy.kHighsInf)
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

    def plan_of(self, multiplicities: Multiplicities) -> Plan:
        """The plan in which so many trainers get each column."""
        chosen = np.flatnonzero(multiplicities)
        type_of = self.type_ids[chosen]
        of_type = [
            np.repeat(chosen[type_of == type_id], multiplicities[chosen[type_of == type_id]])
            for type_id in range(len(self._trainers.number))
        ]
        counts = self.counts
        return [counts[columns] for columns in of_type]

    def _array(self, name: str, known: list[Any]) -> NDArray[Any]:
        """A fact of each column as an array, kept until a column is added."""
        if name not in self._arrays:
            self._arrays[name] = read_only(np.array(known))
        return self._arrays[name]

    def _all_columns(self) -> tuple[int, NDArray[np.int32]]:
        """Number and indices of all columns that HiGHS has, the slacks of the groups first."""
        number = len(self._growth_rows) + len(self)
        return number, np.arange(number, dtype=np.int32)


@dataclass(frozen=True, slots=True)
class Relaxation:
    """The best bound that column generation found.

    Attributes:
        bound: no plan within the branch is worth more.
        duals: the prices that prove it.
        pricing: the pricing problem solved at these prices.
    """

    bound: float
    duals: Duals
    pricing: PricingResult


def generate_columns(
    master: Master,
    trainers: TrainerTypes,
    limits: BranchLimits,
    left_s: Clock,
    good_enough: float = -np.inf,
    give_up_at: float = np.inf,
    structure: DPStructure | None = None,
    *,
    tail_share: float = 0.0,
) -> Relaxation:
    """Add columns until the pricing problem finds none that is better.

    Args:
        master: to which columns are added.
        trainers: the trainers.
        limits: of the branch.
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
        pricing = solve_pricing(trainers, duals, limits, structure)
        bound = duals.bound(trainers, pricing, limits)
        # Bounds of column generation do not fall steadily: the best one is kept.
        if best is None or bound < best.bound:
            best = Relaxation(bound, duals, pricing)
        near = max(EXACT * max(1.0, abs(worth)), tail_share * (best.bound - good_enough) if tail_share else 0.0)
        if best.bound <= max(good_enough, worth + near) or worth >= give_up_at:
            break
        # No new column: the relaxation is solved, but for rounding errors of the duals.
        if not master.add_all(pricing.counts) or left_s() <= 0:
            break
    assert best is not None
    return best
