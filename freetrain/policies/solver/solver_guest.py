"""A solver as a guest: asked in a process of its own, with a deadline, and believed only as far as can be checked.

HiGHS's time limit is none: it is known to run for ever in presolve and heuristics. Its answers may be wrong: it is
known to call models infeasible that are not, and to lose in presolve what it has found.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from freetrain.core.problem import Counts, Problem
from freetrain.guest.guest import Guest
from freetrain.guest.report import Ending, Report
from freetrain.policies.solver.answer import Answer, believe, find_fault


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


class SolverGuest:
    """Asks a solver.

    Args:
        guest: where it runs.
        function: what is asked, as ``module:function``; answers with an ``Answer``.
    """

    def __init__(self, guest: Guest, function: str) -> None:
        self._guest = guest
        self._function = function

    def ask(self, problem: Problem, *arguments: object, time_s: float, known_value: float) -> tuple[Found, float]:
        """What is found, and the wall seconds that it took.

        Args:
            problem: what the answer is held against.
            arguments: of the function.
            time_s: wall seconds that it may take; it is ended a little later.
            known_value: what a known allocation is worth.
        """
        report = self._guest.ask(self._function, *arguments, time_s=time_s)
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
    is_as_meant = believed.proven or not answer.said
    happened = f"HiGHS {believed.lie}" if believed.lie else "" if is_as_meant else f"HiGHS stopped {ended}"
    return Found(answer.counts, believed.proven, believed.bound, happened)


def _nothing(happened: str, again: bool = False) -> Found:
    return Found(None, False, math.inf, happened, again)
