from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.problems import mixed_problem, random_problem
from freetrain.core.decision import Status
from freetrain.core.problem import Offer, Problem
from freetrain.core.trainer import Trainer
from freetrain.core.verify import verify
from freetrain.policies import POLICIES, find_policy
from freetrain.policies.equal_share import equal_sizes
from tests.policies.deciding import decide

LINEAR = tuple((nodes, 10.0 * nodes) for nodes in (1, 2, 4, 8))


def trainers(count: int, min_nodes: int = 1) -> tuple[Trainer, ...]:
    return tuple(Trainer(f"T{number}", LINEAR, min_nodes=min_nodes) for number in range(count))


def test_an_equal_share_is_equal() -> None:
    assert equal_sizes(trainers(3), 12).tolist() == [4, 4, 4]


def test_what_is_left_of_an_equal_share_goes_first_come_first_served() -> None:
    assert equal_sizes(trainers(3), 11).tolist() == [4, 4, 3]


def test_what_is_left_stays_where_it_is() -> None:
    import numpy as np

    assert equal_sizes(trainers(3), 11, np.array([3, 4, 4])).tolist() == [3, 4, 4]


def test_an_equal_share_that_a_trainer_cannot_use_goes_to_the_others() -> None:
    small = Trainer("small", ((1, 10.0), (2, 20.0)))
    assert equal_sizes((small, *trainers(2)), 12).tolist() == [2, 5, 5]


def test_more_trainers_than_nodes_get_one_each_while_they_last() -> None:
    assert equal_sizes(trainers(5), 3).tolist() == [1, 1, 1, 0, 0]


def test_a_minimum_that_does_not_fit_leaves_the_nodes_to_others() -> None:
    assert equal_sizes((*trainers(1, min_nodes=8), *trainers(1)), 5).tolist() == [0, 5]


@pytest.mark.parametrize("policy", POLICIES)
def test_every_policy_copes_with_nothing(policy: str) -> None:
    problem = Problem(0.0, (), ())
    decision = decide(find_policy(policy), problem)
    assert decision.placement == {}
    assert verify(problem, decision) == ()
    only_nodes = replace(problem, nodes=(Offer("n1"),))
    assert verify(only_nodes, decide(find_policy(policy), only_nodes)) == ()


@pytest.mark.parametrize("policy", POLICIES)
def test_every_policy_verifies_on_a_machine_of_some_size(policy: str) -> None:
    problem = random_problem(1, 30, 300)
    assert verify(problem, decide(find_policy(policy), problem)) == ()


@pytest.mark.parametrize("policy", [name for name in POLICIES if name != "freetrain"])
def test_every_policy_keeps_the_rules_whatever_there_is_and_decides_alike_twice(policy: str) -> None:
    for seed in range(200):
        problem = mixed_problem(seed, lives=seed % 2 == 0)
        done = {trainer.id: 1000.0 * row for row, trainer in enumerate(problem.trainers)}
        targets = tuple(replace(one, target_samples=5000.0) if seed % 3 else one for one in problem.trainers)
        problem = replace(problem, trainers=targets, done_samples=done)
        decision = decide(find_policy(policy), problem)
        assert verify(problem, decision) == (), seed
        assert decision == decide(find_policy(policy), problem), seed


def test_short_lived_nodes_go_to_the_trainer_that_is_hurt_least() -> None:
    fragile = Trainer("fragile", ((1, 10.0), (2, 20.0)), scale_down_s=50)
    robust = Trainer("robust", ((1, 10.0), (2, 20.0)), scale_down_s=0)
    nodes = (Offer("long1"), Offer("long2"), Offer("short1", 60.0), Offer("short2", 60.0))
    decision = decide(find_policy("freetrain"), Problem(0.0, nodes, (fragile, robust)))
    assert set(decision.placement["robust"]) == {"short1", "short2"}
    assert set(decision.placement["fragile"]) == {"long1", "long2"}


def lives_problem() -> Problem:
    problem = random_problem(3, 12, 90)
    ends = (None, problem.now_s + 40, problem.now_s + 80)
    nodes = tuple(replace(node, free_until_s=ends[row % 3]) for row, node in enumerate(problem.nodes))
    return replace(problem, nodes=nodes)


def test_a_solver_without_time_leaves_the_greedy_decision_and_says_so() -> None:
    problem = lives_problem()
    decision = decide(find_policy("freetrain", time_limit_s=1e-6), problem)
    assert decision.status in (Status.FALLBACK, Status.FEASIBLE)
    assert decision.placement
    assert verify(problem, decision) == ()
    assert "HiGHS" in decision.notes[0]


def test_greedy_stays_close_to_the_optimum() -> None:
    for seed in range(10):
        problem = random_problem(seed, 20, 200)
        optimum = decide(find_policy("freetrain"), problem).objective
        assert 0.97 * optimum <= decide(find_policy("greedy"), problem).objective <= optimum * (1 + 1e-9)
