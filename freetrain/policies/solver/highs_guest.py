"""HiGHS as a guest: asked in a process of its own, with a deadline, and believed only as far as can be checked.

Its time limit is none: it is known to run for ever in presolve and heuristics. Its answers may be wrong: it is
known to call models infeasible that are not, and to lose in presolve what it has found.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from freetrain.core.problem import Counts, Problem
from freetrain.guest.guest import Guest
from freetrain.guest.report import Ending, Report
from freetrain.policies.solver.answer import Answer, believe, find_fault
from freetrain.policies.solver.menu import Menu

_MODULE = "freetrain.policies.solver.highs"
_MEMORY_BYTES = 3 << 30
"""Below MemoryMax of systemd/freetrain.service, so that a model too large ends the guest and not the daemon."""


@dataclass(frozen=True, slots=True)
class Found:
    """What came of asking.

    Attributes:
        counts: an allocation that may be used; None: there is none.
        proven: whether it is the optimum.
        bound: no allocation is worth more; inf where that is not known.
        happened: what happened, where it is not simply solved: a clause.
        again: whether another way to solve it may help.
    """

    counts: Counts | None
    proven: bool
    bound: float
    happened: str
    again: bool = False


class HighsGuest:
    """Asks HiGHS.

    Args:
        guest: where it runs.
        function: what is asked, with the arguments of ``freetrain.policies.solver.highs.solve``.
    """

    def __init__(self, guest: Guest, function: str = f"{_MODULE}:solve") -> None:
        self._guest = guest
        self._function = function

    def solve(self, problem: Problem, menus: Sequence[Menu], time_limit_s: float, known_value: float) -> Found:
        """Allocation of largest total value, or the best one found in time.

        There always is an allocation: nobody gets a node. Where HiGHS finds none, or one that may not be used,
        although its time has not run out, it is asked once more, without presolve.

        Args:
            problem: what the answer is held against.
            menus: what each trainer may be given, shape (trainers,).
            time_limit_s: wall seconds that HiGHS may take in all; it is ended a little later.
            known_value: what a known allocation is worth.
        """
        first, took_s = self._ask(problem, menus, True, time_limit_s, known_value)
        if not first.again or took_s >= time_limit_s:
            return first
        second, _ = self._ask(problem, menus, False, time_limit_s - took_s, known_value)
        solved = second.happened or "it was solved"
        return replace(second, happened=f"{first.happened}; asked again without presolve, {solved}")

    def _ask(
        self, problem: Problem, menus: Sequence[Menu], presolve: bool, time_s: float, known_value: float
    ) -> tuple[Found, float]:
        capacity = problem.capacity.tolist()
        report = self._guest.ask(self._function, list(menus), capacity, presolve, time_s=time_s)
        return _judge(problem, report, known_value), report.took_s


def _judge(problem: Problem, report: Report, known_value: float) -> Found:
    answer = report.answer
    if report.ending is not Ending.ANSWERED:
        return _nothing(f"HiGHS {report.said}")
    if not isinstance(answer, Answer):
        return _nothing(f"HiGHS's answer is none: {answer!r:.80}", again=True)
    ended = f"after {report.took_s:.3g} s ({answer.said})"
    if answer.counts is None:
        impossible = "" if answer.out_of_time else ", although there always is one"
        return _nothing(f"HiGHS found no allocation {ended}{impossible}", again=not answer.out_of_time)
    if fault := find_fault(problem, answer.counts):
        return _nothing(f"HiGHS's answer {ended} cannot be used: {fault}", again=not answer.out_of_time)
    believed = believe(problem, answer, known_value)
    happened = f"HiGHS {believed.lie}" if believed.lie else "" if believed.proven else f"HiGHS stopped {ended}"
    return Found(answer.counts, believed.proven, believed.bound, happened)


def _nothing(happened: str, again: bool = False) -> Found:
    return Found(None, False, math.inf, happened, again)


HIGHS = HighsGuest(Guest(imports=(_MODULE,), memory_bytes=_MEMORY_BYTES))
"""One for the whole process, since its start takes a second while policies are made anew for each look."""
