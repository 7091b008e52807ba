"""Sharing out: the best that can be had where it is known how each trainer changes."""

from __future__ import annotations

import random

import numpy as np
import pytest

from benchmarks.problems import NOW_S
from freetrain.core.problem import Offer, Problem
from freetrain.core.throughput import Curve
from freetrain.core.trainer import Trainer
from freetrain.core.value import total_value
from freetrain.policies.solver.bidders import Bidders, bidders_of
from freetrain.policies.solver.limits import no_limits
from freetrain.policies.solver.sharing_out import Change, share_out
from tests.oracle.enumeration import best_by_enumeration

FREE = {"scale_up_s": 0.0, "scale_down_s": 0.0, "forced_loss_s": 0.0}


def concave(draw: random.Random) -> Curve:
    gains = sorted((draw.uniform(1, 100) for _ in range(5)), reverse=True)
    return tuple((size, sum(gains[:size])) for size in range(1, 6))


def problem_of(seed: int, trainers: int = 3, nodes: int = 8) -> Problem:
    """Nobody has a node, changes cost nothing, and each node more is worth less."""
    draw = random.Random(seed)
    ends = [None, NOW_S + 40, NOW_S + 90]
    offers = tuple(Offer(f"n{number}", draw.choice(ends)) for number in range(nodes))
    return Problem(
        NOW_S, offers, tuple(Trainer(f"t{number}", concave(draw), **FREE) for number in range(trainers))
    )


def all_grow(bidders: Bidders) -> list[Change]:
    return [Change(bid, True, (True,) * len(bidders.capacity)) for bid in range(len(bidders.whose))]


@pytest.mark.parametrize("seed", range(10))
def test_where_each_node_more_is_worth_less_it_is_the_optimum(seed: int) -> None:
    problem = problem_of(seed)
    bidders, _ = bidders_of(problem)
    counts = share_out(bidders, all_grow(bidders), no_limits(bidders))
    assert counts is not None
    assert (counts.sum(axis=0) <= problem.capacity).all()
    assert total_value(problem, counts) == pytest.approx(best_by_enumeration(problem))


def test_it_keeps_within_limits_and_ends() -> None:
    bidders, _ = bidders_of(problem_of(1))
    first, *others = all_grow(bidders)
    leave = (True, False, True)
    limits = no_limits(bidders).more_than([1], 0, 0).at_most([1], 2, 2)
    counts = share_out(bidders, [Change(0, True, leave), *others], limits)
    assert counts is not None
    assert counts[0, 1] == 0
    assert counts[1, 0] >= 1
    assert counts[1].sum() <= 2
    assert share_out(bidders, [first, *others], limits.more_than([1], 2, 2)) is None


def test_who_grows_keeps_what_it_has_and_who_does_not_gets_nothing_new() -> None:
    curve = tuple((size, 10.0 * size) for size in range(1, 6))
    nodes = tuple(
        Offer(f"n{number}", None if number < 3 else NOW_S + 60, "a" if number == 4 else "b") for number in range(6)
    )
    problem = Problem(NOW_S, nodes, (Trainer("a", curve, **FREE), Trainer("b", curve, **FREE)))
    bidders, _ = bidders_of(problem)
    ends = (True,) * len(problem.capacity)
    counts = share_out(bidders, [Change(0, True, ends), Change(1, False, ends)], no_limits(bidders))
    assert counts is not None
    assert (counts[0] >= problem.held[0]).all()
    assert (counts[1] <= problem.held[1]).all()
    assert counts.sum() == 6
    both_need_all = [Change(0, True, ends), Change(1, True, ends)]
    assert share_out(bidders.on(np.array([1, 1])), both_need_all, no_limits(bidders)) is None


def test_who_keeps_what_it_has_pays_no_change_and_gets_nothing_else() -> None:
    curve = tuple((size, 10.0 * size) for size in range(1, 6))
    nodes = tuple(Offer(f"n{number}", None if number < 3 else NOW_S + 60, "a") for number in range(5))
    problem = Problem(NOW_S, nodes, (Trainer("a", curve, scale_down_s=60.0),))
    bidders, _ = bidders_of(problem)
    counts = share_out(bidders, [Change(0, False, (True, True), keeps=True)], no_limits(bidders))
    assert counts is not None
    assert counts.tolist() == problem.held.tolist()
