"""A second opinion on a decision: HiGHS solves the whole model of its problem again, held against its claims.

A decision claims that no allocation is worth more than its value and its gap. It is refuted by an allocation that
is worth more; and HiGHS's bound below the decision's own value shows that the two do not solve the same model.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import cast

from freetrain.core.decision import Decision
from freetrain.core.problem import Counts, Problem
from freetrain.core.value import counts_of, total_value
from freetrain.core.verify import VALUE_TOLERANCE
from freetrain.policies.solver.guests import SolverAnswer, find_fault
from freetrain.policies.solver.piecewise import counts_by_choice, piecewise_choices


class Agreement(StrEnum):
    """Whether two solvers agree on a decision."""

    AGREES = "agrees"
    """No allocation is worth more than the decision claims."""
    DIFFERS = "differs"
    OPEN = "open"
    """HiGHS proved neither within its time."""


@dataclass(frozen=True, slots=True)
class SecondOpinion:
    """What HiGHS's answer says of a decision.

    Attributes:
        agreement: whether it confirms the decision's claim.
        why: where it does not, a clause.
    """

    agreement: Agreement
    why: str = ""


def has_claim(problem: Problem, decision: Decision) -> bool:
    """Whether a decision claims anything that a second solver can confirm or refute."""
    return decision.gap is not None and bool(problem.terms.possible[:, 1 : problem.node_count + 1].any())


def solve_again(problem: Problem, decision: Decision, *, left_s: Callable[[], float]) -> SecondOpinion:
    """Called in the guest: states the whole model, and has HiGHS begin with the decision.

    Args:
        problem: that was solved.
        decision: with a claim.
        left_s: wall seconds that are left.
    """
    from freetrain.policies.solver.highs import solve  # with it come Pyomo and HiGHS, for the guest alone

    choices = list(piecewise_choices(problem))
    start = counts_by_choice(problem, choices, counts_of(problem, decision.placement)).tolist()
    opinion = SecondOpinion(Agreement.OPEN)
    for presolve in (True, False):
        opinion = compare(
            problem, decision, solve(choices, problem.capacity.tolist(), start, presolve, left_s=left_s)
        )
        # HiGHS's presolve is known to lose solutions: what it says against a decision must hold without it.
        if opinion.agreement is not Agreement.DIFFERS:
            break
    return opinion


def compare(problem: Problem, decision: Decision, answer: SolverAnswer) -> SecondOpinion:
    """Hold a solver's answer against what a decision claims.

    Args:
        problem: that both solved.
        decision: with a gap, and with the value that its placement has.
        answer: of the solver.
    """
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
