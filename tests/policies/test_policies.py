from __future__ import annotations

from dataclasses import replace
from time import perf_counter

import pytest

from benchmarks.problems import mixed_problem, random_problem
from freetrain.core.decision import Status
from freetrain.core.place import Place
from freetrain.core.problem import Problem
from freetrain.core.topology import Topology
from freetrain.core.trainer import Trainer, past_of_samples
from freetrain.core.verify import verify
from freetrain.loop import deciding
from freetrain.policies import (
    PLACERS,
    UNKNOWN_LINKS,
    VARIANTS,
    Links,
    Placer,
    Policy,
    find_placer,
    find_policy,
    with_links,
)
from freetrain.policies.aiming import nothing_asked
from freetrain.policies.equal_share import equal_sizes
from tests.policies.deciding import decide

TIME_LIMIT_S = 10.0
"""That of ``find_policy``."""
LINEAR = tuple((nodes, 10.0 * nodes) for nodes in (1, 2, 4, 8))


def trainers(count: int, min_nodes: int = 1) -> tuple[Trainer, ...]:
    return tuple(Trainer(f"T{number}", LINEAR, min_nodes=min_nodes) for number in range(count))


def test_an_equal_share_is_equal() -> None:
    assert equal_sizes(nothing_asked(trainers(3)), 12).tolist() == [4, 4, 4]


def test_what_is_left_of_an_equal_share_goes_first_come_first_served() -> None:
    assert equal_sizes(nothing_asked(trainers(3)), 11).tolist() == [4, 4, 3]


def test_what_is_left_stays_where_it_is() -> None:
    import numpy as np

    assert equal_sizes(nothing_asked(trainers(3)), 11, np.array([3, 4, 4])).tolist() == [3, 4, 4]


def test_an_equal_share_that_a_trainer_cannot_use_goes_to_the_others() -> None:
    small = Trainer("small", ((1, 10.0), (2, 20.0)))
    assert equal_sizes(nothing_asked((small, *trainers(2))), 12).tolist() == [2, 5, 5]


def test_more_trainers_than_nodes_get_one_each_while_they_last() -> None:
    assert equal_sizes(nothing_asked(trainers(5)), 3).tolist() == [1, 1, 1, 0, 0]


def test_a_minimum_that_does_not_fit_leaves_the_nodes_to_others() -> None:
    assert equal_sizes(nothing_asked((*trainers(1, min_nodes=8), *trainers(1))), 5).tolist() == [0, 5]


@pytest.mark.parametrize("policy", VARIANTS)
def test_every_policy_copes_with_nothing(policy: str) -> None:
    problem = Problem(0.0, (), ())
    decision = decide(find_policy(policy), problem)
    assert decision.placement == {}
    assert verify(problem, decision) == ()
    only_nodes = replace(problem, nodes=(Place("n1"),))
    assert verify(only_nodes, decide(find_policy(policy), only_nodes)) == ()


@pytest.mark.parametrize("policy", VARIANTS)
def test_every_policy_verifies_on_a_machine_of_some_size(policy: str) -> None:
    problem = random_problem(1, 30, 300)
    assert verify(problem, decide(find_policy(policy), problem)) == ()


@pytest.mark.parametrize("policy", VARIANTS)
def test_every_policy_keeps_the_rules_whatever_there_is_and_decides_alike_twice(policy: str) -> None:
    for seed in range(200):
        problem = mixed_problem(seed, lives=seed % 2 == 0)
        done = {trainer.id: 1000.0 * row for row, trainer in enumerate(problem.trainers)}
        targets = tuple(
            replace(trainer, target_samples=5000.0, bytes_per_sample=2e7) if seed % 3 else trainer
            for trainer in problem.trainers
        )
        problem = replace(problem, trainers=targets, past=past_of_samples(done))
        if seed // 2 % 2:
            problem = in_parts(problem)
        found = []
        for _ in range(2):
            decides, places = stages(policy, problem, seed)
            found.append(deciding.decide(decides, problem, perf_counter, places))
        for decision in found:
            assert decision.solver != deciding.STAY, decision.notes
            assert verify(problem, decision) == (), seed
            assert decision.solve_s < TIME_LIMIT_S + 1, seed
        assert replace(found[0], solve_s=0.0) == replace(found[1], solve_s=0.0), seed


def in_parts(problem: Problem) -> Problem:
    """Its nodes are parts of nodes: three of each, those that fragments have and those that nobody has yet."""
    names = (f"n{number // 3}#{'' if one.holder else '+'}{number}" for number, one in enumerate(problem.nodes))
    return replace(
        problem, nodes=tuple(replace(place, name=name) for place, name in zip(problem.nodes, names, strict=True))
    )


def stages(policy: str, problem: Problem, seed: int) -> tuple[Policy, Placer]:
    """A policy and a placer in turn, who know the switches; two of five times with little bandwidth."""
    leaves = {node.node: f"leaf{number // 3}" for number, node in enumerate(problem.nodes)}
    topology = Topology(leaves, dict.fromkeys(leaves.values(), "root"))
    links = Links.of_gbit(10.0, 10.0, topology) if seed % 5 < 2 else UNKNOWN_LINKS
    questions = ((problem.nodes, problem.trainers),)
    placer = find_placer(PLACERS[seed % len(PLACERS)], topology)
    return with_links(find_policy(policy), placer, links, questions)


def amdahl(rate: float, parallel: float) -> tuple[tuple[int, float], ...]:
    return tuple((nodes, rate / (1 - parallel + parallel / nodes)) for nodes in range(1, 7))


@pytest.mark.parametrize(
    ("horizon_s", "sizes", "value"),
    [(20.0, (2, 4), 9525.6), (60.0, (2, 4), 28576.8), (600.0, (6, 0), 334133.9)],
)
def test_the_longer_the_horizon_the_more_the_better_scaler_gets(
    horizon_s: float, sizes: tuple[int, int], value: float
) -> None:
    """Worked out by hand; who shrinks loses 10 s and who grows 30 s of what it does now."""
    trainers = tuple(
        Trainer(name, amdahl(*curve), scale_up_s=30, scale_down_s=10)
        for name, curve in (("better", (100.0, 0.99)), ("worse", (80.0, 0.95)))
    )
    nodes = tuple(Place(f"n{number}", None, "better" if number < 2 else "worse") for number in range(6))
    decision = decide(find_policy("freetrain"), Problem(0.0, nodes, trainers, horizon_s, "throughput"))
    assert tuple(len(decision.placement.get(trainer.id, ())) for trainer in trainers) == sizes
    assert decision.objective == pytest.approx(value, abs=0.05)


def test_short_lived_nodes_go_to_the_trainer_that_is_hurt_least() -> None:
    fragile = Trainer("fragile", ((1, 10.0), (2, 20.0)), scale_down_s=50)
    robust = Trainer("robust", ((1, 10.0), (2, 20.0)), scale_down_s=0)
    nodes = (Place("long1"), Place("long2"), Place("short1", 60.0), Place("short2", 60.0))
    decision = decide(find_policy("freetrain"), Problem(0.0, nodes, (fragile, robust)))
    assert set(decision.placement["robust"]) == {"short1", "short2"}
    assert set(decision.placement["fragile"]) == {"long1", "long2"}


def lives_problem() -> Problem:
    problem = random_problem(3, 12, 90)
    ends = (None, problem.now_s + 40, problem.now_s + 80)
    nodes = tuple(replace(node, until_s=ends[row % 3]) for row, node in enumerate(problem.nodes))
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
