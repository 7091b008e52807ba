"""Second opinions: what HiGHS's whole model says of what a decision claims."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.problems import mixed_problem, problem_with_ends, with_kinds
from freetrain.core.decision import Decision, Status
from freetrain.core.place import Place
from freetrain.core.problem import Problem
from freetrain.core.trainer import Trainer
from freetrain.policies import find_policy
from freetrain.policies.solver.guests import Agreement, SolverAnswer, compare, has_claim
from freetrain.policies.solver.highs import solve_again
from tests.policies import deciding

LONG_S = 300.0
PROBLEM = with_kinds(problem_with_ends(1, 8, 40, 3, (60.0, 60.0, 360.0, 60.0)), 1, 2, orderly=True)
GREEDY, GOOD = (deciding.decide(find_policy(name), PROBLEM) for name in ("greedy", "freetrain"))


def test_a_wrong_optimum_is_found() -> None:
    wrong = replace(GREEDY, status=Status.OPTIMAL, gap=0.0)
    opinion = solve_again(PROBLEM, wrong, left_s=lambda: LONG_S)
    assert opinion.agreement is Agreement.DIFFERS
    assert "HiGHS has an allocation worth" in opinion.why


@pytest.mark.parametrize("seed", range(12))
def test_right_ones_are_confirmed(seed: int) -> None:
    problem = mixed_problem(seed, lives=seed % 2 == 0)
    decision = deciding.decide(find_policy("freetrain"), problem)
    if has_claim(problem, decision):
        assert solve_again(problem, decision, left_s=lambda: LONG_S).agreement is Agreement.AGREES


def test_without_time_it_stays_open() -> None:
    assert solve_again(PROBLEM, GOOD, left_s=lambda: 0.0).agreement is Agreement.OPEN


def test_a_bound_below_what_a_decision_has_shows_that_the_models_differ() -> None:
    answer = SolverAnswer(None, True, GOOD.objective * 0.99, "Optimal")
    assert compare(PROBLEM, GOOD, answer).agreement is Agreement.DIFFERS


def test_only_a_claim_on_something_can_be_refuted() -> None:
    assert has_claim(PROBLEM, GOOD)
    assert not has_claim(PROBLEM, replace(GOOD, gap=None))
    nothing = Problem(0.0, (Place("n1"),), (Trainer("t", ((2, 1.0),), min_nodes=2),))
    assert not has_claim(nothing, Decision(Status.OPTIMAL, 0.0, {}, "nothing to decide", 0.0))
