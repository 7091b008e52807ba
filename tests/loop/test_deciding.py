from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from freetrain.core.decision import Allocation, Decision, Placement, Status, place
from freetrain.core.place import Place
from freetrain.core.problem import Counts, Problem
from freetrain.core.trainer import Trainer
from freetrain.core.value import total_value
from freetrain.core.verify import verify
from freetrain.errors import InputError
from freetrain.loop import deciding
from freetrain.loop.deciding import decide, stay
from freetrain.policies import find_policy

PROBLEM = Problem(
    now_s=0.0,
    nodes=(
        Place("n1", None, "A"),
        Place("n2", None, "A"),
        Place("n3", None, "B"),
        Place("n4"),
    ),
    trainers=(Trainer("A", ((1, 10.0), (2, 18.0))), Trainer("B", ((2, 30.0),), min_nodes=2, max_nodes=9)),
)
ALL = np.array([[2], [2]])
WORTH = total_value(PROBLEM, ALL)


@dataclass
class Answering:
    """A policy that answers whatever it is told to."""

    answer: Callable[[Problem], Any]

    def decide(self, problem: Problem) -> Allocation:
        return self.answer(problem)  # type: ignore[no-any-return]


def decided(answer: Callable[[Problem], Any], problem: Problem = PROBLEM) -> Decision:
    return decide(Answering(answer), problem, lambda: 0.0)


def ticking() -> float:
    """A stopwatch that advances by half a second whenever it is looked at."""
    ticking.s += 0.5  # type: ignore[attr-defined]
    return ticking.s  # type: ignore[attr-defined, no-any-return]


ticking.s = 0.0  # type: ignore[attr-defined]


def test_a_decision_is_timed_and_carries_the_problems_warnings() -> None:
    decision = decide(find_policy("freetrain"), PROBLEM, ticking)
    assert decision.solve_s == 0.5
    assert any("max_nodes 9" in note for note in decision.notes)


def test_counts_are_valued_and_placed_here() -> None:
    decision = decided(lambda problem: Allocation(ALL, "by hand", notes=("so be it",)))
    assert decision.placement == {"A": ("n1", "n2"), "B": ("n3", "n4")}
    assert verify(PROBLEM, decision) == ()
    assert (decision.status, decision.solver, decision.gap) == (Status.HEURISTIC, "by hand", None)
    assert decision.notes[0] == "so be it"


def fail(problem: Problem) -> Any:
    raise KeyError("moon")


def leave(problem: Problem) -> Any:
    sys.exit("no licence")


class UnspeakableError(Exception):
    def __str__(self) -> str:
        raise RuntimeError


def fail_without_words(problem: Problem) -> Any:
    raise UnspeakableError


def fail_at_length(problem: Problem) -> Any:
    raise ValueError("one\nthing\n after another")


def write(problem: Problem) -> Any:
    problem.held[0, 0] = 9


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (fail, "the policy Answering failed, so all stays as it is: KeyError: 'moon'"),
        (leave, "the policy Answering failed, so all stays as it is: SystemExit: no licence"),
        (fail_without_words, "UnspeakableError: <exception str() failed>"),
        (fail_at_length, "so all stays as it is: ValueError: one thing after another"),
        (write, "the policy Answering failed, so all stays as it is: ValueError: assignment destination is read-"),
        (lambda problem: None, "the policy Answering gave a NoneType and no Allocation, so all stays as it is"),
        (lambda problem: Allocation(ALL / 2, "half"), "all stays as it is: TypeError: counts must be integers"),
        (
            lambda problem: Allocation(ALL.T, ""),
            "the allocation of the policy Answering was rejected, so all stays ",
        ),
        (lambda problem: Allocation(-ALL, ""), "as it is: trainer A gets -2 nodes of class 0, which has 4"),
        (
            lambda problem: Allocation(ALL + 1, ""),
            "6 nodes of class 0 are given away, which has 4; trainer A gets 3",
        ),
        (lambda problem: Allocation(ALL - [[0], [1]], ""), "trainer B gets 1 nodes, outside its 2 to 2"),
    ],
)
def test_a_policy_that_fails_or_goes_wrong_changes_nothing(answer: Callable[[Problem], Any], said: str) -> None:
    decision = decided(answer)
    assert decision.status == Status.FALLBACK
    assert decision.solver == "stay"
    assert decision.placement == {"A": ("n1", "n2")}
    assert said in decision.notes[0]
    assert "max_nodes 9" in decision.notes[1]


@dataclass
class Placing:
    """A placer that answers whatever it is told to."""

    answer: Callable[[Problem], Any]

    def place(self, problem: Problem, counts: Counts) -> Placement:
        return self.answer(problem)  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (fail, "the placer Placing failed, so the first nodes are taken: KeyError: 'moon'"),
        (lambda problem: None, "the placer Placing failed, so the first nodes are taken: AttributeError: "),
        (
            lambda problem: {"A": ("n1", "moon"), "B": ("n3", "n4")},
            "of Placing was rejected, so the first nodes ar",
        ),
        (lambda problem: {"A": ("n1", "n4"), "B": ("n3", "n2")}, "trainer A would migrate: it loses n2 and gains"),
        (lambda problem: {"A": ("n1", "n2"), "B": ()}, "trainer B gets 0 nodes of class 0 instead of 2"),
    ],
)
def test_where_a_placer_fails_or_goes_wrong_the_first_nodes_do(
    answer: Callable[[Problem], Any], said: str
) -> None:
    policy = Answering(lambda problem: Allocation(ALL, "by hand"))
    decision = decide(policy, PROBLEM, lambda: 0.0, Placing(answer))
    assert decision.placement == {"A": ("n1", "n2"), "B": ("n3", "n4")}
    assert decision.solver == "by hand"
    assert said in decision.notes[0]


def test_the_order_of_a_placers_nodes_is_kept() -> None:
    policy, turned = Answering(lambda problem: Allocation(ALL, "by hand")), {"A": ("n2", "n1"), "B": ("n4", "n3")}
    assert decide(policy, PROBLEM, lambda: 0.0, Placing(lambda problem: turned)).placement == turned


def test_what_was_placed_wrongly_is_never_used(monkeypatch: pytest.MonkeyPatch) -> None:
    placed = iter([{"A": ("n1", "n2", "moon")}])

    def place_wrongly_once(problem: Problem, counts: Any) -> Placement:
        return next(placed, None) or place(problem, counts)

    monkeypatch.setattr(deciding, "place", place_wrongly_once)
    policy = Answering(lambda problem: Allocation(ALL, "by hand"))
    decision = decide(policy, PROBLEM, lambda: 0.0, Placing(fail))
    assert decision.solver == "stay"
    assert "the decision of by hand was rejected: moon is lent" in decision.notes[0]


def test_an_objective_that_fails_is_no_fault_of_the_policy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "moody", type("moody", (), {"objective": lambda trainer: [1 / 0]}))
    with pytest.raises(InputError, match="ZeroDivisionError"):
        decide(find_policy("greedy"), replace(PROBLEM, objective="moody:objective"), lambda: 0.0)


@pytest.mark.parametrize("status", Status)
def test_without_a_bound_a_gap_is_unknown_unless_the_optimum_is_claimed(status: Status) -> None:
    for bound in (None, float("inf")):
        decision = decided(lambda problem, bound=bound: Allocation(ALL, "by hand", status, bound))  # type: ignore[misc]
        assert decision.status is status
        assert decision.gap == (0.0 if status is Status.OPTIMAL else None)


@pytest.mark.parametrize("status", [Status.FEASIBLE, Status.FALLBACK, Status.HEURISTIC])
def test_the_gap_is_worked_out_from_the_bound(status: Status) -> None:
    decision = decided(lambda problem: Allocation(ALL, "by hand", status, 1.25 * WORTH))
    assert decision.status is status
    assert decision.gap == pytest.approx(0.25)


def test_an_optimum_that_reaches_its_bound_has_no_gap() -> None:
    for bound in (WORTH, WORTH * (1 + 1e-8), WORTH * (1 - 1e-8)):
        decision = decided(lambda problem, bound=bound: Allocation(ALL, "by hand", Status.OPTIMAL, bound))  # type: ignore[misc]
        assert (decision.status, decision.gap) == (Status.OPTIMAL, 0.0)


def test_an_optimum_that_does_not_reach_its_bound_is_none() -> None:
    decision = decided(lambda problem: Allocation(ALL, "by hand", Status.OPTIMAL, 2 * WORTH))
    assert (decision.status, decision.gap) == (Status.FEASIBLE, pytest.approx(1.0))
    assert "by hand claims the optimum, but its allocation is worth" in decision.notes[0]


@pytest.mark.parametrize("status", [Status.OPTIMAL, Status.FEASIBLE])
def test_a_value_above_the_claimed_bound_is_said(status: Status) -> None:
    decision = decided(lambda problem: Allocation(ALL, "by hand", status, WORTH / 2))
    assert decision.placement == {"A": ("n1", "n2"), "B": ("n3", "n4")}
    assert (decision.status, decision.gap) == (Status.HEURISTIC, None)
    assert "by hand claims that nothing is worth more than" in decision.notes[0]


def test_staying_gives_up_only_what_is_outside_a_trainers_limits() -> None:
    assert stay(PROBLEM, "why").placement == {"A": ("n1", "n2")}
    too_many = replace(PROBLEM, trainers=(Trainer("A", ((1, 10.0),)), PROBLEM.trainers[1]))
    assert stay(too_many, "why").placement == {"A": ("n1",)}


def test_staying_on_a_machine_without_nodes_is_possible() -> None:
    nothing = replace(PROBLEM, nodes=())
    assert verify(nothing, stay(nothing, "why")) == ()
