"""Columns as a guest: the programme that combines them is HiGHS's, which is not let into this process."""

from __future__ import annotations

from freetrain.core.problem import Problem
from freetrain.guest.guest import Guest
from freetrain.policies.solver.bidders import bidders_of
from freetrain.policies.solver.solver_guest import Found, SolverGuest

_MODULE = "freetrain.policies.solver.columns"


class ColumnsGuest:
    """Asks for the best combination of columns.

    Args:
        guest: where it runs.
        function: what is asked, with the arguments of ``freetrain.policies.solver.columns.solve``.
    """

    def __init__(self, guest: Guest, function: str = f"{_MODULE}:solve") -> None:
        self._solver = SolverGuest(guest, function)

    def solve(self, problem: Problem, time_limit_s: float, known_value: float) -> Found:
        """An allocation close to the optimum, and how close.

        Args:
            problem: the problem.
            time_limit_s: wall seconds that it may take; it is ended a little later.
            known_value: what a known allocation is worth.
        """
        return self._solver.ask(problem, *bidders_of(problem), time_s=time_limit_s, known_value=known_value)[0]


COLUMNS = ColumnsGuest(Guest(imports=(_MODULE,)))
"""One for the whole process, as ``HIGHS``."""
