"""The oracles against each other, and against what can be worked out by hand."""

from __future__ import annotations

import pytest

from benchmarks.problems import NOW_S, mixed_problem, random_problem
from freetrain.core.decision import Decision, Status
from freetrain.core.place import Place
from freetrain.core.problem import Problem
from freetrain.core.trainer import Trainer
from freetrain.core.verify import verify
from freetrain.replay.trainers import CURVES
from tests.oracle.enumeration import best_by_enumeration
from tests.oracle.published import solve_published

LINEAR = Trainer("a", ((1, 10.0), (4, 40.0)), scale_up_s=18.0, scale_down_s=12.0)


def problem_of(*nodes: tuple[float | None, str | None], trainers: tuple[Trainer, ...] = (LINEAR,)) -> Problem:
    """A throughput problem over 100 s; a node is (seconds until it is due back, holder)."""
    named = (
        Place(f"n{number}", None if life_s is None else NOW_S + life_s, holder)
        for number, (life_s, holder) in enumerate(nodes)
    )
    return Problem(NOW_S, tuple(named), trainers, 100.0, "throughput")


def optima_of(seed: int) -> tuple[float, float]:
    """The published model's, whose placement is sound, and that of enumeration."""
    problem = mixed_problem(seed)
    published = solve_published(problem)
    assert published.proven
    decision = Decision(Status.OPTIMAL, published.objective, published.placement, "published model")
    assert verify(problem, decision) == ()
    return published.objective, best_by_enumeration(problem)


@pytest.mark.parametrize("seed", range(120))
def test_enumeration_and_published_model_agree(seed: int) -> None:
    published, best = optima_of(seed)
    assert published == pytest.approx(best, rel=1e-6, abs=1e-6)


@pytest.mark.parametrize(
    "seeds",
    [
        pytest.param(range(120, 320), marks=pytest.mark.slow, id="many"),
        pytest.param(range(320, 3000), marks=pytest.mark.soak, id="more"),
    ],
)
def test_enumeration_and_published_model_agree_on_many(seeds: range) -> None:
    for seed in seeds:
        published, best = optima_of(seed)
        assert published == pytest.approx(best, rel=1e-6, abs=1e-6), seed


def test_one_trainer_takes_all_idle_nodes() -> None:
    shufflenet = Trainer("shufflenet", CURVES["ShuffleNet"], max_nodes=64)
    problem = Problem(NOW_S, tuple(Place(f"n{number}") for number in range(5)), (shufflenet,), 120.0, "throughput")
    assert best_by_enumeration(problem) == pytest.approx(1_510_296)
    assert solve_published(problem).objective == pytest.approx(1_510_296)


def test_the_published_model_knows_no_departures() -> None:
    with pytest.raises(ValueError, match="due back"):
        solve_published(problem_of((50.0, None)))


@pytest.mark.parametrize(
    ("nodes", "value"),
    [
        pytest.param([], 0, id="no node"),
        pytest.param([(None, None)], 100 * 10, id="a start is free"),
        pytest.param([(None, "a"), (None, None)], 100 * 20 - 18 * 10, id="growing costs at the old rate"),
        pytest.param([(100.0, None)], 100 * 10, id="due back just at the horizon hurts nobody"),
        pytest.param([(300.0, None)], 100 * 10, id="nor does later"),
        pytest.param([(0.0, None), (-5.0, "a")], 0, id="a node already due back is not there"),
        pytest.param([(60.0, None)], 60 * 10 - 12 * 10, id="an eviction costs at the rate before it"),
        pytest.param([(8.0, None)], 0, id="no good for a trainer that would not get its loss back"),
        pytest.param([(60.0, None), (60.0, None)], 60 * 20 - 12 * 20, id="two leave together: one eviction"),
        pytest.param(
            [(60.0, None), (80.0, None)],
            60 * 20 - 12 * 20 + 20 * 10 - 12 * 10,
            id="two leave in turn: two evictions",
        ),
        pytest.param([(None, None), (60.0, None)], 60 * 20 - 12 * 20 + 40 * 10, id="one leaves, one stays"),
        pytest.param(
            [(None, "a"), (10.0, "a")],
            10 * 20 - 12 * 20 + 90 * 10,
            id="kept until it is due back, as shrinking costs too",
        ),
        pytest.param([(None, "a"), (13.0, None)], 100 * 10, id="not worth growing for"),
    ],
)
def test_enumeration_by_hand(nodes: list[tuple[float | None, str | None]], value: float) -> None:
    assert best_by_enumeration(problem_of(*nodes)) == pytest.approx(value)


def test_enumeration_charges_a_start_at_the_new_rate() -> None:
    slow_starter = Trainer("a", ((1, 10.0), (4, 40.0)), start_s=30.0)
    problem = problem_of((None, None), (None, None), trainers=(slow_starter,))
    assert best_by_enumeration(problem) == pytest.approx((100 - 30) * 20)


def test_enumeration_charges_a_known_end_as_a_change_in_good_order() -> None:
    fragile = Trainer("a", ((1, 10.0), (4, 40.0)), scale_down_s=40.0, forced_loss_s=400.0)
    assert best_by_enumeration(problem_of((60.0, None), trainers=(fragile,))) == pytest.approx((60 - 40) * 10)


def test_enumeration_is_evicted_where_that_costs_less() -> None:
    sturdy = Trainer("a", ((1, 10.0), (4, 40.0)), scale_down_s=40.0, forced_loss_s=5.0)
    assert best_by_enumeration(problem_of((60.0, None), trainers=(sturdy,))) == pytest.approx((60 - 5) * 10)


def test_enumeration_lets_nobody_swap_nodes() -> None:
    """Each would do better with the other's node, but nobody may give a node up and take another."""
    sturdy = Trainer("sturdy", ((1, 10.0),), scale_down_s=0.0)
    fragile = Trainer("fragile", ((1, 10.0),), scale_down_s=50.0)
    problem = problem_of((None, "sturdy"), (60.0, "fragile"), trainers=(sturdy, fragile))
    assert best_by_enumeration(problem) == pytest.approx(100 * 10 + (60 - 50) * 10)


def test_a_random_problem_is_the_same_every_time() -> None:
    assert random_problem(3, 10, 64) == random_problem(3, 10, 64)
    assert mixed_problem(3, lives=True) == mixed_problem(3, lives=True)
    assert random_problem(3, 10, 64) != random_problem(4, 10, 64)
