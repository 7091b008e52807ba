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
from freetrain.core.terms import Sizes
from freetrain.policies.quiet_highs import quiet_highs
from freetrain.policies.solver.bidders import Bidders
from freetrain.policies.solver.over_classes import Prices

Plan = list[Counts]
"""For each kind what each of its trainers gets, shape (trainers of the kind, classes)."""
Times = NDArray[np.int64]
"""How many trainers make each choice, shape (columns,)."""


class Master:
    """The columns known so far, and HiGHS which combines them.

    Args:
        bidders: the trainers.
    """

    def __init__(self, bidders: Bidders) -> None:
        self._bidders = bidders
        self._position: dict[tuple[int, bytes], int] = {}
        self._kinds: list[int] = []
        self._counts: list[Counts] = []
        self._highs = quiet_highs()
        self._highs.changeObjectiveSense(highspy.ObjSense.kMaximize)
        nobody = np.array([], np.int32), np.array([])
        for number in bidders.number.tolist():
            self._highs.addRow(number, number, 0, *nobody)
        for nodes in bidders.capacity.tolist():
            self._highs.addRow(-highspy.kHighsInf, nodes, 0, *nobody)

    def __len__(self) -> int:
        return len(self._kinds)

    @property
    def kinds(self) -> NDArray[np.int64]:
        """Whose choice each column is, shape (columns,)."""
        return np.array(self._kinds)

    @property
    def counts(self) -> Counts:
        """Nodes of each class, shape (columns, classes)."""
        return np.array(self._counts)

    def add_all(self, counts: Counts) -> bool:
        """One column for each kind; whether any was new."""
        return sum(self.add(kind, column) for kind, column in enumerate(counts)) > 0

    def add(self, kind: int, column: Counts) -> bool:
        """Add a column; whether it was new. One that is impossible is left out."""
        key = kind, column.tobytes()
        impossible = column.sum() >= self._bidders.worth.shape[1] or (column > self._bidders.capacity).any()
        value = -np.inf if impossible or key in self._position else float(self._bidders.values_of(kind, column))
        if value == -np.inf:
            return False
        self._position[key] = len(self)
        self._kinds.append(kind)
        self._counts.append(column)
        taken = np.flatnonzero(column)
        rows = np.concatenate([[kind], taken + len(self._bidders.number)]).astype(np.int32)
        number = float(self._bidders.number[kind])
        self._highs.addCol(value, 0.0, number, len(rows), rows, np.concatenate([[1.0], column[taken]]))
        return True

    def relax(self) -> tuple[float, Prices, NDArray[np.float64]]:
        """What the columns are worth if they may be mixed; the prices of the nodes; how often each is taken."""
        self._highs.run()
        solution = self._highs.getSolution()
        prices = np.maximum(np.array(solution.row_dual[len(self._bidders.number) :]), 0.0)
        return self._highs.getInfo().objective_function_value, prices, np.array(solution.col_value)

    def bar(self, taken: Times, left: Sizes) -> None:
        """Take at least these columns, and more only of those that fit into what is left."""
        fits = (self.counts <= left).all(axis=1)
        self._bound(taken, np.where(fits, self._bidders.number[self.kinds], taken))

    def whole(self, plan: Plan, gap: float, branches: int, time_limit_s: float) -> tuple[Plan, float]:
        """The best whole combination, and a bound on all of them.

        Args:
            plan: a combination to begin with; its columns are known.
            gap: distance from the bound at which it is good enough.
            branches: of the search, at most.
            time_limit_s: wall seconds.
        """
        every = np.arange(len(self), dtype=np.int32)
        self._bound(np.zeros(len(self), np.int64), self._bidders.number[self.kinds])
        # HiGHS counts the time of all runs together.
        until_s = self._highs.getRunTime() + max(time_limit_s, 0.0)
        limits = {"mip_max_nodes": branches, "time_limit": until_s}
        for option, value in {**limits, "mip_rel_gap": 0.0, "mip_abs_gap": gap}.items():
            self._highs.setOptionValue(option, value)
        self._are(every, highspy.HighsVarType.kInteger)
        self._highs.setSolution(len(every), every, self._times_of(plan).astype(float))
        self._highs.run()
        found = self._highs.getSolution().col_value
        bound = float(self._highs.getInfo().mip_dual_bound)
        self._are(every, highspy.HighsVarType.kContinuous)
        times = np.rint(np.array(found)).astype(np.int64)
        return (self.plan_of(times) if self._is_possible(times) else plan), bound

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

    def _times_of(self, plan: Plan) -> Times:
        times = np.zeros(len(self), np.int64)
        for kind, columns in enumerate(plan):
            for column in columns:
                times[self._position[kind, column.tobytes()]] += 1
        return times

    def _is_possible(self, times: Times) -> bool:
        """Whether each trainer makes one choice, and the nodes suffice."""
        if len(times) != len(self):
            return False
        made = np.bincount(self.kinds, weights=times, minlength=len(self._bidders.number))
        return bool((made == self._bidders.number).all() and (times @ self.counts <= self._bidders.capacity).all())

    def _bound(self, fewest: Times, most: Times) -> None:
        every = np.arange(len(self), dtype=np.int32)
        self._highs.changeColsBounds(len(every), every, fewest.astype(float), most.astype(float))

    def _are(self, every: NDArray[np.int32], kind: Any) -> None:
        self._highs.changeColsIntegrality(len(every), every, np.full(len(every), kind.value, dtype=np.uint8))
