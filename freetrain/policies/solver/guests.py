"""Solvers as guests: asked in processes of their own, with a deadline, and believed as far as can be checked.

HiGHS's time limit cannot be relied on: it is known to run for ever in presolve and heuristics. Its answers may be
wrong: it is known to call models infeasible that are not, and to lose in presolve what it has found. So an answer
(``SolverAnswer``) is held against its own allocation and a known one before it becomes a ``SolverResult``.

For a *second opinion* HiGHS solves the whole model of a decision's problem again. A decision claims that no
allocation is worth more than its value and its gap. It is refuted by an allocation that is worth more; and HiGHS's
bound below the decision's own value shows that the two do not solve the same model.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import cast

import numpy as np

from freetrain.core.decision import Decision
from freetrain.core.problem import Counts, Problem
from freetrain.core.value import total_value
from freetrain.core.verify import VALUE_TOLERANCE, verify_counts
from freetrain.guest.channel import GuestReport, QuestionEnd
from freetrain.guest.guest import Ask, Guest
from freetrain.policies.solver.piecewise import PiecewiseChoice, counts_by_choice


@dataclass(frozen=True, slots=True)
class SolverAnswer:
    """A solver's answer, not yet checked.

    Attributes:
        counts: nodes of each trainer by class, or None where it found no allocation.
        status_text: the solver's own words for how it ended.
    """

    counts: Counts | None
    proven: bool
    bound: float
    status_text: str
    out_of_time: bool = False


def find_fault(problem: Problem, counts: object) -> str:
    """The reason why an allocation may not be used, as a clause; empty where it may."""
    trainers, classes = problem.held.shape
    if not isinstance(counts, np.ndarray) or counts.shape != (trainers, classes) or counts.dtype.kind != "i":
        return f"it is not a table of whole numbers for {trainers} trainers and {classes} classes of nodes"
    return "; ".join(verify_counts(problem, counts))


def check_claims(problem: Problem, answer: SolverAnswer, known_value: float) -> tuple[bool, float, str]:
    """Hold the claims of an answer against its own allocation and another one.

    Returns:
        Whether the allocation is the optimum; a bound, inf where it is unknown or disproved; what is disproved,
        as the rest of a sentence that begins with the solver's name.
    """
    assert answer.counts is not None
    value = total_value(problem, answer.counts)
    tolerance = VALUE_TOLERANCE * max(1.0, abs(value), abs(known_value))
    best = max(value, known_value)
    # What comes out of another process may be of any kind.
    if not isinstance(answer.bound, float) or math.isnan(answer.bound):
        return False, math.inf, f"claims a bound that is not a number ({answer.bound!r:.40})"
    if best > answer.bound + tolerance:
        return False, math.inf, f"claims that nothing is worth more than {answer.bound:g}, yet {best:g} is"
    if answer.proven and known_value > value + tolerance:
        return False, answer.bound, f"calls an allocation worth {value:g} optimal, yet {best:g} is better"
    return bool(answer.proven) and answer.bound <= value + tolerance, answer.bound, ""


@dataclass(frozen=True, slots=True)
class SolverResult:
    """A checked result of a solver.

    Attributes:
        counts: an allocation that may be used; None: there is none.
        bound: no allocation is worth more; inf where that is not known.
        note: clause on how the solver ended; empty where it is simply solved.
        retry: whether another way to solve it may help.
    """

    counts: Counts | None
    proven: bool
    bound: float
    note: str
    retry: bool = False


def ask_solver(
    solver: Ask, problem: Problem, *arguments: object, time_s: float, known_value: float
) -> tuple[SolverResult, float]:
    """The checked result of a solver, which gives a ``SolverAnswer``, and the wall seconds that it took."""
    report = solver(*arguments, time_s=time_s)
    return _judge(problem, report, known_value), report.took_s


def _judge(problem: Problem, report: GuestReport, known_value: float) -> SolverResult:
    answer = report.answer
    if report.ending is not QuestionEnd.ANSWERED:
        return _nothing(f"HiGHS {report.message}")
    if not isinstance(answer, SolverAnswer):
        return _nothing(f"HiGHS's answer is none: {answer!r:.80}", retry=True)
    ended = f"after {report.took_s:.3g} s ({answer.status_text})"
    if answer.counts is None:
        impossible = "" if answer.out_of_time else ", although there always is one"
        return _nothing(f"HiGHS found no allocation {ended}{impossible}", retry=not answer.out_of_time)
    if fault := find_fault(problem, answer.counts):
        return _nothing(f"HiGHS's answer {ended} cannot be used: {fault}", retry=not answer.out_of_time)
    proven, bound, disproof = check_claims(problem, answer, known_value)
    stopped = "" if proven or not answer.status_text else f"HiGHS stopped {ended}"
    return SolverResult(answer.counts, proven, bound, f"HiGHS {disproof}" if disproof else stopped)


def _nothing(note: str, retry: bool = False) -> SolverResult:
    return SolverResult(None, False, math.inf, note, retry)


def solve_whole_model(
    highs: Ask, problem: Problem, choices: Sequence[PiecewiseChoice], start: Counts, time_s: float
) -> SolverResult:
    """Ask for the optimum of the whole model, or the best allocation found in time.

    There always is an allocation: no trainer gets a node. Where HiGHS finds none, or one that may not be used,
    although its time has not run out, it is asked once more, without presolve.
    """
    asked = list(choices), problem.capacity.tolist(), counts_by_choice(problem, choices, start).tolist()
    known_value = total_value(problem, start)
    first, took_s = ask_solver(highs, problem, *asked, True, time_s=time_s, known_value=known_value)
    if not first.retry or took_s >= time_s:
        return first
    second, _ = ask_solver(highs, problem, *asked, False, time_s=time_s - took_s, known_value=known_value)
    return replace(second, note=f"{first.note}; asked again without presolve, {second.note or 'it was solved'}")


def _solver_in(module: str) -> Ask:
    return Guest(imports=(module,)).asking(f"{module}:solve")


# One of each for the whole process: its start takes a second, and policies are made for each look.
HIGHS = _solver_in("freetrain.policies.solver.highs")
"""Solver of the whole model."""
COLUMNS = _solver_in("freetrain.policies.solver.branch_and_price")
"""Branch and price: its master is HiGHS's, which is not let into this process either."""


class Agreement(StrEnum):
    """Whether two solvers agree on a decision."""

    AGREES = "agrees"
    """No allocation is worth more than the decision claims."""
    DIFFERS = "differs"
    OPEN = "open"
    """HiGHS proved neither within its time."""


@dataclass(frozen=True, slots=True)
class SecondOpinion:
    """A second opinion: whether HiGHS's answer agrees with a decision, and a clause on why it does not."""

    agreement: Agreement
    why: str = ""


def has_claim(problem: Problem, decision: Decision) -> bool:
    """Whether a decision claims anything that a second solver can confirm or refute."""
    return decision.gap is not None and bool(problem.terms.possible[:, 1 : problem.node_count + 1].any())


def compare(problem: Problem, decision: Decision, answer: SolverAnswer) -> SecondOpinion:
    """Hold a solver's answer against what a decision claims."""
    assert decision.gap is not None
    value, tolerance = decision.objective, VALUE_TOLERANCE * max(1.0, abs(decision.objective))
    claimed = value + decision.gap * abs(value) + tolerance
    found = value if find_fault(problem, answer.counts) else total_value(problem, cast(Counts, answer.counts))
    if found > claimed:
        why = f"HiGHS has an allocation worth {found:.12g}, and by {decision.solver} none is worth more than"
        return SecondOpinion(Agreement.DIFFERS, f"{why} {claimed:.12g}")
    if answer.bound < value - tolerance:
        why = f"by HiGHS none is worth more than {answer.bound:.12g}, and that of {decision.solver} is worth"
        return SecondOpinion(Agreement.DIFFERS, f"{why} {value:.12g}")
    return SecondOpinion(Agreement.AGREES if answer.bound <= claimed else Agreement.OPEN, answer.status_text)
