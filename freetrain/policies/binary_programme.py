"""Small 0-1 programmes and their linear relaxations, solved by HiGHS as a guest; HiGHS's configuration here."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import inf

import highspy
import numpy as np

from freetrain.guest.channel import QuestionEnd
from freetrain.guest.guest import Ask, Guest

_MODULE = "freetrain.policies.binary_programme"
_TOLERANCE = 1e-6


@dataclass(frozen=True, slots=True)
class LinearRow:
    """least ≤ Σ factor · variable ≤ most; factors by the position of their variable."""

    factors: Mapping[int, float]
    most: float
    least: float = -inf


@dataclass(frozen=True, slots=True)
class BinaryProgramme:
    """Max Σ value · variable; where it is integral, variables are 0 or 1, else also between."""

    values: Sequence[float]
    rows: Sequence[LinearRow]
    integral: bool = True

    def is_met_by(self, found: Sequence[float]) -> bool:
        """Whether these are values of the variables that keep all rows."""
        if len(found) != len(self.values) or not all(-_TOLERANCE <= value <= 1 + _TOLERANCE for value in found):
            return False
        # HiGHS calls integral what is so within its own tolerance, which is the same.
        if self.integral and not all(min(abs(value), abs(value - 1)) <= _TOLERANCE for value in found):
            return False
        for row in self.rows:
            total = sum(factor * found[position] for position, factor in row.factors.items())
            scale = max(1.0, *(abs(factor) for factor in row.factors.values())) if row.factors else 1.0
            if not row.least - _TOLERANCE * scale <= total <= row.most + _TOLERANCE * scale:
                return False
        return True


HIGHS = Guest(imports=(_MODULE,)).asking(f"{_MODULE}:solve")
"""HiGHS as a guest, one for the whole process, as its start takes a while; it is started at the first question."""


def solve_in_guest(
    programme: BinaryProgramme, time_s: float, highs: Ask = HIGHS
) -> tuple[tuple[float, ...] | None, str]:
    """Values of the variables that keep all rows, the best or the best found in time, and what happened.

    None where there is nothing that may be used; the clause says why. It is empty where all is proven.
    """
    report = highs(programme, time_s=time_s)
    if report.ending is not QuestionEnd.ANSWERED:
        return None, f"HiGHS {report.message}"
    found, status_text = report.answer if isinstance(report.answer, tuple) else (None, "it gave no answer")
    if found is None or not programme.is_met_by(found):
        return None, f"HiGHS found nothing that may be used ({status_text or 'its own status is OK'})"
    return found, status_text


def solve(programme: BinaryProgramme, *, left_s: Callable[[], float]) -> tuple[tuple[float, ...] | None, str]:
    """The variables, and HiGHS's status where they are not the proven optimum; called in the guest."""
    highs, count = quiet_highs(), len(programme.values)
    highs.setOptionValue("mip_rel_gap", 1e-6)
    highs.changeObjectiveSense(highspy.ObjSense.kMaximize)
    for value in programme.values:
        highs.addCol(value, 0.0, 1.0, 0, np.array([], np.int32), np.array([]))
    if programme.integral:
        every = np.arange(count, dtype=np.int32)
        highs.changeColsIntegrality(count, every, np.full(count, highspy.HighsVarType.kInteger))
    for row in programme.rows:
        places = np.array(list(row.factors), dtype=np.int32)
        factors = np.array(list(row.factors.values()), dtype=np.float64)
        highs.addRow(row.least, row.most, len(places), places, factors)
    # Only now: stating the model has taken its share of the time.
    highs.setOptionValue("time_limit", max(left_s(), 0.0))
    highs.run()
    status = highs.getModelStatus()
    found = tuple(highs.getSolution().col_value) or None
    return found, "" if status == highspy.HighsModelStatus.kOptimal else str(status)


def quiet_highs() -> highspy.Highs:
    """HiGHS without a model: silent, in one thread, and with the same answer to the same question."""
    highs = highspy.Highs()
    for option, value in (("output_flag", False), ("threads", 1), ("random_seed", 1)):
        highs.setOptionValue(option, value)
    return highs
