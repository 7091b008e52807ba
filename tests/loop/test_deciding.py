from __future__ import annotations

from dataclasses import replace

from freetrain.core.decision import Decision, Status
from freetrain.core.problem import Offer, Problem
from freetrain.core.trainer import Trainer
from freetrain.core.verify import verify
from freetrain.loop.deciding import decide, stay
from freetrain.policies import find_policy

PROBLEM = Problem(
    now_s=0.0,
    nodes=(
        Offer("n1", None, "A"),
        Offer("n2", None, "A"),
        Offer("n3", None, "B"),
        Offer("n4"),
    ),
    trainers=(Trainer("A", ((1, 10.0), (2, 18.0))), Trainer("B", ((2, 30.0),), min_nodes=2, max_nodes=9)),
)


class Wrong:
    """A policy that hands out a node which does not exist."""

    def decide(self, problem: Problem) -> Decision:
        return Decision(Status.OPTIMAL, 1e9, {"A": ("n1", "n2", "moon")}, "wrong")


def ticking() -> float:
    """A stopwatch that advances by half a second whenever it is looked at."""
    ticking.s += 0.5  # type: ignore[attr-defined]
    return ticking.s  # type: ignore[attr-defined, no-any-return]


ticking.s = 0.0  # type: ignore[attr-defined]


def test_a_decision_is_timed_and_carries_the_problems_warnings() -> None:
    decision = decide(find_policy("freetrain"), PROBLEM, ticking)
    assert decision.solve_s == 0.5
    assert any("max_nodes 9" in note for note in decision.notes)


def test_a_wrong_decision_is_never_used() -> None:
    decision = decide(Wrong(), PROBLEM, ticking)
    assert decision.status == Status.FALLBACK
    assert verify(PROBLEM, decision) == ()
    assert "rejected: moon is lent" in decision.notes[0]


def test_staying_gives_up_only_what_is_outside_a_trainers_limits() -> None:
    assert stay(PROBLEM, "why").placement == {"A": ("n1", "n2")}
    too_many = replace(PROBLEM, trainers=(Trainer("A", ((1, 10.0),)), PROBLEM.trainers[1]))
    assert stay(too_many, "why").placement == {"A": ("n1",)}


def test_staying_on_a_machine_without_nodes_is_possible() -> None:
    nothing = replace(PROBLEM, nodes=())
    assert verify(nothing, stay(nothing, "why")) == ()
