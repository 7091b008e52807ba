"""Rounding by a flow: the best plan where the pattern of each trainer is given."""

from __future__ import annotations

import random

import numpy as np
import pytest

from benchmarks.problems import NOW_S
from freetrain.core.place import Place
from freetrain.core.problem import Problem
from freetrain.core.throughput import Curve
from freetrain.core.trainer import Trainer
from freetrain.core.value import total_value
from freetrain.policies.solver.rounding import NOWHERE, ChangePattern, Flow, round_by_flow
from freetrain.policies.solver.trainer_types import TrainerTypes, no_limits, types_of
from tests.oracle.enumeration import best_by_enumeration

FREE = {"scale_up_s": 0.0, "scale_down_s": 0.0, "forced_loss_s": 0.0}


def concave(draw: random.Random) -> Curve:
    gains = sorted((draw.uniform(1, 100) for _ in range(5)), reverse=True)
    return tuple((size, sum(gains[:size])) for size in range(1, 6))


def problem_of(seed: int, trainers: int = 3, nodes: int = 8) -> Problem:
    """Nobody has a node, changes cost nothing, and each node more is worth less."""
    draw = random.Random(seed)
    ends = [None, NOW_S + 40, NOW_S + 90]
    offers = tuple(Place(f"n{number}", draw.choice(ends)) for number in range(nodes))
    return Problem(
        NOW_S, offers, tuple(Trainer(f"t{number}", concave(draw), **FREE) for number in range(trainers))
    )


def all_grow(trainers: TrainerTypes) -> list[ChangePattern]:
    return [
        ChangePattern(choice, True, (True,) * len(trainers.capacity)) for choice in range(len(trainers.type_of))
    ]


@pytest.mark.parametrize("seed", range(10))
def test_where_each_node_more_is_worth_less_it_is_the_optimum(seed: int) -> None:
    problem = problem_of(seed)
    trainers, _ = types_of(problem)
    counts = round_by_flow(trainers, all_grow(trainers), no_limits(trainers))
    assert counts is not None
    assert (counts.sum(axis=0) <= problem.capacity).all()
    assert total_value(problem, counts) == pytest.approx(best_by_enumeration(problem))


def test_it_keeps_within_limits_and_ends() -> None:
    trainers, _ = types_of(problem_of(1))
    first, *others = all_grow(trainers)
    leave = (True, False, True)
    limits = no_limits(trainers).more_than([1], 0, 0).at_most([1], 2, 2)
    counts = round_by_flow(trainers, [ChangePattern(0, True, leave), *others], limits)
    assert counts is not None
    assert counts[0, 1] == 0
    assert counts[1, 0] >= 1
    assert counts[1].sum() <= 2
    assert round_by_flow(trainers, [first, *others], limits.more_than([1], 2, 2)) is None


def test_who_grows_keeps_what_it_has_and_who_does_not_gets_nothing_new() -> None:
    curve = tuple((size, 10.0 * size) for size in range(1, 6))
    nodes = tuple(
        Place(f"n{number}", None if number < 3 else NOW_S + 60, "a" if number == 4 else "b") for number in range(6)
    )
    problem = Problem(NOW_S, nodes, (Trainer("a", curve, **FREE), Trainer("b", curve, **FREE)))
    trainers, _ = types_of(problem)
    ends = (True,) * len(problem.capacity)
    counts = round_by_flow(
        trainers, [ChangePattern(0, True, ends), ChangePattern(1, False, ends)], no_limits(trainers)
    )
    assert counts is not None
    assert (counts[0] >= problem.held[0]).all()
    assert (counts[1] <= problem.held[1]).all()
    assert counts.sum() == 6
    both_need_all = [ChangePattern(0, True, ends), ChangePattern(1, True, ends)]
    assert round_by_flow(trainers.on(np.array([1, 1])), both_need_all, no_limits(trainers)) is None


def test_who_keeps_what_it_has_pays_no_change_and_gets_nothing_else() -> None:
    curve = tuple((size, 10.0 * size) for size in range(1, 6))
    nodes = tuple(Place(f"n{number}", None if number < 3 else NOW_S + 60, "a") for number in range(5))
    problem = Problem(NOW_S, nodes, (Trainer("a", curve, scale_down_s=60.0),))
    trainers, _ = types_of(problem)
    counts = round_by_flow(trainers, [ChangePattern(0, False, (True, True), keeps=True)], no_limits(trainers))
    assert counts is not None
    assert counts.tolist() == problem.held.tolist()


def test_what_is_there_goes_where_it_gains_most() -> None:
    flow = Flow()
    flow.add(0, 1, 0.0, 3)
    flow.add(0, 2, 0.0, 9)
    flow.add(1, NOWHERE, 2.0, 9)
    flow.add(2, NOWHERE, 1.5, 1)
    flow.add(2, NOWHERE, -1.0, 9)
    units = flow.solve(np.array([7]), [0, 0])
    assert units is not None
    assert units.tolist() == [3, 1, 3, 1, 0]


def test_what_a_place_uses_must_come_there() -> None:
    flow = Flow()
    flow.add(0, 1, -1.0, 5)
    units = flow.solve(np.array([7]), [4])
    assert units is not None
    assert units.tolist() == [4]
    assert flow.solve(np.array([3]), [4]) is None
