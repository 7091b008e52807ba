"""The master programme: which columns go together, solved by HiGHS.

A *column* is a choice of one kind of trainer: how many nodes of each class one of them gets. Each trainer makes
one choice, and the nodes suffice.
"""

from __future__ import annotations

from typing import Any

import highspy
import numpy as np
from numpy.typing import NDArray

from freetrain.core.problem import Counts
from freetrain.core.terms import read_only
from freetrain.policies.quiet_highs import quiet_highs
from freetrain.policies.solver.bidders import Bidders
from freetrain.policies.solver.limits import Limits
from freetrain.policies.solver.replies import Duals

Plan = list[Counts]
"""For each kind what each of its trainers gets, shape (trainers of the kind, classes)."""
_PRIMAL = 4
"""Of HiGHS's option ``simplex_strategy``."""
Times = NDArray[np.int64]
"""How many trainers make each choice, shape (columns,)."""


class Master:
    """The columns known so far, and HiGHS which combines them.

    Args:
        bidders: the trainers.
    """

    def __init__(self, bidders: Bidders) -> None:
        self._bidders = bidders
        self._held_nodes = bidders.held_by_kind.sum(axis=1).tolist()
        self._position: dict[tuple[int, bytes], int] = {}
        self._kinds: list[int] = []
        self._counts: list[Counts] = []
        self._sizes: list[Counts] = []
        self._owners: list[tuple[int, int]] = []
        self._values: list[float] = []
        self._arrays: dict[str, NDArray[Any]] = {}
        self._bounds_of_growth: dict[int, list[float]] = {}
        self._highs = quiet_highs()
        # After new columns, and with other values, the last combination still is one, though not the best.
        self._highs.setOptionValue("simplex_strategy", _PRIMAL)
        self._highs.setOptionValue("primal_simplex_bound_perturbation_multiplier", 0.0)
        self._highs.changeObjectiveSense(highspy.ObjSense.kMaximize)
        nobody = np.array([], np.int32), np.array([])
        for number in bidders.number.tolist():
            self._highs.addRow(number, number, 0, *nobody)
        for nodes in bidders.capacity.tolist():
            self._highs.addRow(-highspy.kHighsInf, nodes, 0, *nobody)
        rows = self._rows_of_growth = len(bidders.number) + len(bidders.capacity) + np.arange(len(bidders.groups))
        self._rows_of_its_growth = [rows[of_kind] for of_kind in bidders.groups.T]
        for row, number in zip(rows.tolist(), bidders.in_group.tolist(), strict=True):
            self._highs.addRow(-highspy.kHighsInf, highspy.kHighsInf, 0, *nobody)
            # It stands for trainers that ought to grow and cannot, so that there always is a combination.
            self._highs.addCol(-1.0, 0.0, number, 1, np.array([row]), np.array([1.0]))

    def __len__(self) -> int:
        return len(self._kinds)

    @property
    def kinds(self) -> NDArray[np.int64]:
        """Whose choice each column is, shape (columns,)."""
        return self._array("kinds", self._kinds)

    @property
    def values(self) -> NDArray[np.float64]:
        """What each column is worth, shape (columns,)."""
        return self._array("values", self._values)

    @property
    def sizes(self) -> Counts:
        """Nodes that live until each time at which some leave (``Bidders.sizes_of``), shape (columns, times)."""
        return self._array("sizes", self._sizes)

    @property
    def counts(self) -> Counts:
        """Nodes of each class, shape (columns, classes)."""
        return self._array("counts", self._counts)

    def add_all(self, counts: Counts) -> bool:
        """One column for each kind; whether any was new."""
        return sum(self.add(kind, column) for kind, column in enumerate(counts)) > 0

    def add(self, kind: int, column: Counts) -> bool:
        """Add a column; whether it was new. One that is impossible is left out."""
        key = kind, column.tobytes()
        if key in self._position:
            return False
        impossible = column.sum() >= self._bidders.worth.shape[1] or (column > self._bidders.capacity).any()
        value = -np.inf if impossible else float(self._bidders.values_of(kind, column))
        if value == -np.inf:
            return False
        self._arrays.clear()
        self._position[key] = len(self)
        self._kinds.append(kind)
        self._counts.append(column)
        self._sizes.append(self._bidders.sizes_of(column))
        self._owners += [(len(self._kinds) - 1, bid) for bid in self._bidders.bids_for(kind, column)]
        self._values.append(value)
        taken = np.flatnonzero(column)
        grows = self._rows_of_its_growth[kind] if column.sum() > self._held_nodes[kind] else []
        rows = np.concatenate([[kind], taken + len(self._bidders.number), grows]).astype(np.int32)
        number, ones = float(self._bidders.number[kind]), np.ones(len(grows))
        self._highs.addCol(value, 0.0, number, len(rows), rows, np.concatenate([[1.0], column[taken], ones]))
        return True

    def relax(self) -> tuple[float, Duals, NDArray[np.float64]]:
        """What the columns are worth if they may be mixed; the prices; how often each is taken."""
        self._highs.run()
        solution, kinds, groups = self._highs.getSolution(), len(self._bidders.number), len(self._rows_of_growth)
        nodes, growth = np.split(np.array(solution.row_dual[kinds:]), [len(self._bidders.capacity)])
        duals = Duals(np.maximum(nodes, 0.0), growth)
        return self._highs.getInfo().objective_function_value, duals, np.array(solution.col_value[groups:])

    def allow(self, limits: Limits) -> None:
        """Let only columns within these limits be taken; others where nothing else is possible, at a loss."""
        columns, bids = self._array("owners", self._owners).T
        within = np.zeros(len(self), dtype=bool)
        within[columns[limits.hold(bids, self.sizes[columns])]] = True
        values = self.values
        loss = 2 * float(np.abs(values).max() * self._bidders.number.sum())  # more than all together are worth
        never = np.full(len(self._rows_of_growth), -loss)
        self._highs.changeColsCost(
            *self._every(), np.concatenate([never, np.where(within, values, values - loss)])
        )
        # A limit that limits nothing has no price.
        fewest = np.where(limits.fewest_growing > 0, limits.fewest_growing, -highspy.kHighsInf)
        most = np.where(limits.most_growing < self._bidders.in_group, limits.most_growing, highspy.kHighsInf)
        for row, *bounds in zip(self._rows_of_growth.tolist(), fewest.tolist(), most.tolist(), strict=True):
            if bounds != self._bounds_of_growth.get(row):
                self._highs.changeRowBounds(row, *bounds)
                self._bounds_of_growth[row] = bounds

    def worth_within(self, limits: Limits) -> float:
        """What the known columns are worth within these limits if they may be mixed; these limits are left set."""
        self.allow(limits)
        self._highs.run()
        return float(self._highs.getInfo().objective_function_value)

    def plan_of(self, times: Times) -> Plan:
        """Who gets what if each choice is made so often."""
        chosen = np.flatnonzero(times)
        whose = self.kinds[chosen]
        each = [
            np.repeat(chosen[whose == kind], times[chosen[whose == kind]])
            for kind in range(len(self._bidders.number))
        ]
        counts = self.counts
        return [counts[columns] for columns in each]

    def _array(self, name: str, known: list[Any]) -> NDArray[Any]:
        """What is known of the columns as an array, made once for all questions until another is added."""
        if name not in self._arrays:
            self._arrays[name] = read_only(np.array(known))
        return self._arrays[name]

    def _every(self) -> tuple[int, NDArray[np.int32]]:
        """How many columns HiGHS has, one for each group and then those known here, and their numbers."""
        number = len(self._rows_of_growth) + len(self)
        return number, np.arange(number, dtype=np.int32)
