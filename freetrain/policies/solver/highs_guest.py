"""HiGHS as a guest, asked for the optimum of the whole model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from freetrain.core.problem import Problem
from freetrain.guest.guest import Guest
from freetrain.policies.solver.menu import Menu
from freetrain.policies.solver.solver_guest import Found, SolverGuest

_MODULE = "freetrain.policies.solver.highs"


class HighsGuest:
    """Asks HiGHS.

    Args:
        guest: where it runs.
        function: what is asked, with the arguments of ``freetrain.policies.solver.highs.solve``.
    """

    def __init__(self, guest: Guest, function: str = f"{_MODULE}:solve") -> None:
        self._solver = SolverGuest(guest, function)

    def solve(self, problem: Problem, menus: Sequence[Menu], time_limit_s: float, known_value: float) -> Found:
        """Allocation of largest total value, or the best one found in time.

        There always is an allocation: nobody gets a node. Where HiGHS finds none, or one that may not be used,
        although its time has not run out, it is asked once more, without presolve.

        Args:
            problem: what the answer is held against.
            menus: what each trainer may be given, one menu for each of its choices.
            time_limit_s: wall seconds that HiGHS may take in all; it is ended a little later.
            known_value: what a known allocation is worth.
        """
        asked = problem, list(menus), problem.capacity.tolist()
        first, took_s = self._solver.ask(*asked, True, time_s=time_limit_s, known_value=known_value)
        if not first.again or took_s >= time_limit_s:
            return first
        second, _ = self._solver.ask(*asked, False, time_s=time_limit_s - took_s, known_value=known_value)
        solved = second.happened or "it was solved"
        return replace(second, happened=f"{first.happened}; asked again without presolve, {solved}")


HIGHS = HighsGuest(Guest(imports=(_MODULE,)))
"""One for the whole process, since its start takes a second while policies are made anew for each look."""
