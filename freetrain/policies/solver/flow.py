"""A flow of largest gain: a linear programme, solved by HiGHS, whose vertices are whole."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

import highspy
import numpy as np

from freetrain.core.problem import Counts
from freetrain.policies.quiet_highs import quiet_highs

NOWHERE = -1
"""The head of an arc that leads out of the flow."""


class Flow:
    """Arcs from place to place: each unit that goes along one gains something.

    A column of the programme has +1 where its arc begins and -1 where it ends, and nothing else. The determinants
    of such a matrix are 0, 1 and -1, so with whole bounds the vertices are whole (Hoffman and Kruskal 1956).
    """

    def __init__(self) -> None:
        self._ends: list[tuple[int, int]] = []
        self._gains: list[float] = []
        self._most: list[float] = []

    def add(self, tail: int, head: int, gain: float, most: int) -> int:
        """Add an arc on which so many units may go at most; its number."""
        self._ends.append((tail, head))
        self._gains.append(gain)
        self._most.append(most)
        return len(self._ends) - 1

    def solve(self, supply: Counts, uses: Sequence[int], time_limit_s: float = inf) -> Counts | None:
        """Units on each arc; None: it cannot be, or takes longer.

        Args:
            supply: the most that may leave each of the first places.
            uses: how much more must come to each of the others than leaves it.
            time_limit_s: wall seconds.
        """
        if not self._ends:
            return None if any(uses) else np.zeros(0, np.int64)
        highs = quiet_highs()
        highs.setOptionValue("time_limit", time_limit_s)
        highs.setOptionValue("presolve", "off")  # it takes longer than the simplex method needs
        highs.passModel(self._programme(supply, -np.array(uses, dtype=float)))
        highs.run()
        if highs.getModelStatus() != highspy.HighsModelStatus.kOptimal:
            return None
        units: Counts = np.rint(highs.getSolution().col_value).astype(np.int64)
        return units

    def _programme(self, supply: Counts, leaves: np.ndarray) -> highspy.HighsLp:
        model, ends = highspy.HighsLp(), np.array(self._ends, dtype=np.int32).reshape(-1, 2)
        model.num_col_, model.num_row_ = len(ends), len(supply) + len(leaves)
        model.sense_ = highspy.ObjSense.kMaximize
        model.col_cost_, model.col_lower_, model.col_upper_ = self._gains, np.zeros(len(ends)), self._most
        model.row_lower_ = np.concatenate([np.full(len(supply), -highspy.kHighsInf), leaves])
        model.row_upper_ = np.concatenate([supply, leaves])
        inside = ends != NOWHERE
        matrix = model.a_matrix_
        matrix.format_ = highspy.MatrixFormat.kColwise
        matrix.start_ = np.concatenate([[0], np.cumsum(inside.sum(axis=1))])
        matrix.index_, matrix.value_ = ends[inside], np.broadcast_to([1.0, -1.0], ends.shape)[inside]
        return model
