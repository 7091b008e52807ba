from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.problems import mixed_problem
from freetrain.core.decision import Decision, Placement, Status, place
from freetrain.core.place import Place
from freetrain.core.problem import Counts, Problem
from freetrain.core.trainer import Servers, Trainer
from freetrain.core.value import counts_of, total_value
from freetrain.core.verify import verify, verify_counts
from freetrain.policies import find_policy
from tests.policies.deciding import decide

PROBLEM = Problem(
    now_s=1000.0,
    nodes=(
        Place("n1", None, "A"),
        Place("n2", None, "A"),
        Place("n3"),
        Place("gone", 900.0),
    ),
    trainers=(
        Trainer("A", ((1, 10.0), (2, 18.0), (3, 25.0))),
        Trainer("B", ((2, 12.0), (3, 17.0)), min_nodes=2),
    ),
    objective="throughput",
)


def decision(placement: Placement) -> Decision:
    return Decision(Status.HEURISTIC, 0.0, placement, "by hand")


def test_a_good_decision_passes() -> None:
    assert verify(PROBLEM, decide(find_policy("freetrain"), PROBLEM)) == ()


@pytest.mark.parametrize(
    ("placement", "complaint"),
    [
        ({"A": ("n1", "n9")}, "n9 is lent, which is not among"),
        ({"A": ("n1", "gone")}, "gone is lent, which is not among"),
        ({"A": ("n1", "n3"), "B": ("n2", "n3")}, "n3 is lent twice over"),
        ({"A": ("n1", "n1")}, "n1 is lent twice over"),
        ({"B": ("n3",)}, "trainer B gets 1 nodes, outside its 2 to 3"),
        ({"A": ("n1", "n3")}, "trainer A would migrate: it loses n2 and gains n3"),
        ({"C": ("n3",)}, "C is none of the problem's trainers"),
    ],
)
def test_a_wrong_placement_is_found(placement: Placement, complaint: str) -> None:
    assert complaint in "; ".join(verify(PROBLEM, decision(placement)))


CLASSES = Problem(
    now_s=0.0,
    nodes=(Place("long1", None, "A"), Place("long2"), Place("short1", 60.0, "A"), Place("short2", 60.0)),
    trainers=PROBLEM.trainers,
    objective="throughput",
)


@pytest.mark.parametrize(
    "counts",
    [[[1, 1], [0, 0]], [[2, 1], [0, 0]], [[0, 0], [2, 1]], [[1, 0], [0, 0]], [[0, 0], [0, 0]]],
    ids=["stays", "grows", "others", "shrinks", "nobody"],
)
def test_good_counts_pass(counts: list[list[int]]) -> None:
    assert verify_counts(CLASSES, np.array(counts)) == ()


@pytest.mark.parametrize(
    ("counts", "complaints"),
    [
        ([[1, 1]], ["its counts have shape (1, 2), but (2, 2) is (trainers, classes)"]),
        ([2, 0], ["its counts have shape (2,), but (2, 2) is (trainers, classes)"]),
        ([[1, 1], [0, -1]], ["trainer B gets -1 nodes of class 1, which has 2"]),
        ([[3, 0], [0, 0]], ["trainer A gets 3 nodes of class 0, which has 2"]),
        ([[2**62, 0], [2**62, 0]], [f"trainer A gets {2**62} nodes of class 0, which has 2"]),
        ([[1, 1], [1, 2]], ["3 nodes of class 1 are given away, which has 2"]),
        ([[1, 1], [0, 1]], ["trainer B gets 1 nodes, outside its 2 to 3"]),
        ([[2, 2], [0, 0]], ["trainer A gets 4 nodes, outside its 1 to 3"]),
        ([[2, 0], [0, 0]], ["trainer A would migrate: it loses nodes of class 1 and gains some of class 0"]),
        (
            [[0, 2], [1, 0]],
            [
                "trainer B gets 1 nodes, outside its 2 to 3",
                "trainer A would migrate: it loses nodes of class 0 and gains some of class 1",
            ],
        ),
    ],
)
def test_wrong_counts_are_found(counts: object, complaints: list[str]) -> None:
    assert list(verify_counts(CLASSES, np.array(counts))) == complaints


def can_be_placed(problem: Problem, counts: Counts) -> bool:
    placed = place(problem, counts)
    made = Decision(Status.HEURISTIC, total_value(problem, counts), placed, "at random")
    return counts_of(problem, placed).tolist() == counts.tolist() and verify(problem, made) == ()


def test_counts_pass_if_and_only_if_their_placement_passes() -> None:
    passed = refused = 0
    for seed in range(60):
        problem, draw = mixed_problem(seed, lives=True), np.random.default_rng(seed)
        for _ in range(20):
            counts = draw.integers(0, 2) * problem.held + draw.integers(0, 2, problem.held.shape)
            usable = verify_counts(problem, counts) == ()
            assert usable == can_be_placed(problem, counts), f"seed {seed}: {counts.tolist()}"
            passed, refused = passed + usable, refused + (not usable)
    assert min(passed, refused) > 100


def test_a_wrong_value_is_found() -> None:
    good = decide(find_policy("freetrain"), PROBLEM)
    (wrong,) = verify(PROBLEM, replace(good, objective=good.objective + 1))
    assert "claims a value" in wrong


@pytest.mark.parametrize(
    ("serving", "complaint"),
    [
        ({"A": ("n2",)}, None),
        ({"A": ("n3",)}, "trainer A has a server on n3, which is none of its nodes"),
        ({"A": ("n1", "n2")}, "trainer A has servers on n1, n2, and may have 1"),
        ({"A": ("n1", "n1")}, "trainer A has servers on n1, n1, and may have 1"),
        ({"B": ("n3",)}, "trainer B has a server on n3, which is none of its nodes"),
    ],
)
def test_servers_on_wrong_nodes_are_found(serving: dict[str, tuple[str, ...]], complaint: str | None) -> None:
    served = replace(PROBLEM.trainers[0], servers=Servers(1))
    problem = replace(PROBLEM, trainers=(served, PROBLEM.trainers[1]))
    stays = {"A": ("n1", "n2")}
    decision = Decision(Status.HEURISTIC, total_value(problem, counts_of(problem, stays)), stays, "by hand")
    found = verify(problem, replace(decision, serving=serving))
    assert found[:1] == ((complaint,) if complaint else ())
