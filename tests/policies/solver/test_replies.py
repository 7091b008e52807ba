"""What a trainer would take at some prices: held against all that it could take."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np
import pytest

from benchmarks.problems import mixed_problem, with_boots, with_kinds
from freetrain.core.problem import Counts, Offer, Problem
from freetrain.core.trainer import Trainer
from freetrain.core.value import total_value
from freetrain.policies.solver.bidders import Bidders, bidders_of
from freetrain.policies.solver.limits import Limits, no_limits
from freetrain.policies.solver.replies import Duals, best_replies
from freetrain.policies.solver.windows import Windows

SEEDS = [seed for seed in range(60) if len(mixed_problem(seed, lives=True).classes) > 1]


def some_bidders(seed: int) -> Bidders:
    """The new nodes of every other problem's trainers must boot; nodes of every third one differ in kind."""
    problem = mixed_problem(seed, lives=True)
    problem = with_kinds(problem, seed, 2) if seed % 3 == 0 else problem
    return bidders_of(with_boots(problem, seed) if seed % 2 else problem)[0]


def all_choices(bidders: Bidders, kind: int) -> Iterator[Counts]:
    """Of what is there: all kept and some more of one choice that boot in time, or none got and some lost."""
    for each in product(*(range(count + 1) for count in bidders.capacity.tolist())):
        counts = np.array(each, dtype=np.int64)
        stays_within = counts.sum() < bidders.worth.shape[1]
        if stays_within and any(may_take(bidders, bid, counts) for bid in np.flatnonzero(bidders.whose == kind)):
            yield counts


def may_take(bidders: Bidders, bid: int, counts: Counts) -> bool:
    held, joins = bidders.held[bid], bidders.joins[bid]
    grows = (counts >= held).all() and joins[counts > held].all()
    return bool(grows or (counts <= held).all())


def reduced(bidders: Bidders, kind: int, counts: Counts, prices: np.ndarray) -> float:
    return float(bidders.values_of(kind, counts) - counts @ prices)


def unpriced_growth(bidders: Bidders, prices: np.ndarray) -> Duals:
    return Duals(prices, np.zeros(len(bidders.groups)))


def test_a_task_is_worth_no_more_where_it_could_end_before_it_has_booted() -> None:
    """Nodes that stay 300 s belong to the choice of a node that leaves before that, too."""
    task = Trainer("t", ((2, 20.0),), min_nodes=2, boot_s=60.0, forced_loss_s=600.0, moldable=True)
    nodes = tuple(Offer(f"n{number}", 300.0 if number else 30.0) for number in range(3))
    problem = Problem(0.0, nodes, (task,), horizon_s=1200.0, objective="throughput")
    bidders, _ = bidders_of(problem)
    counts = np.array([2, 0])
    assert bidders.values_of(0, counts) == total_value(problem, counts[None, :]) == (300 - 60 - 600) * 20


def some_prices(bidders: Bidders, seed: int) -> np.ndarray:
    """About as much as a node is worth."""
    return np.random.default_rng(seed).uniform(0, 2, len(bidders.capacity)) * bidders.worth.max() * 10


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_is_better_than_the_best_reply(seed: int) -> None:
    bidders = some_bidders(seed)
    prices = some_prices(bidders, seed)
    replies = best_replies(bidders, unpriced_growth(bidders, prices))
    for kind, counts in enumerate(replies.counts):
        best = max(reduced(bidders, kind, choice, prices) for choice in all_choices(bidders, kind))
        assert replies.value[kind] == pytest.approx(best)
        assert reduced(bidders, kind, counts, prices) == pytest.approx(best)
        assert any((counts == choice).all() for choice in all_choices(bidders, kind))


@pytest.mark.parametrize("seed", SEEDS)
def test_every_choice_that_is_nearly_as_good_is_found_and_no_other(seed: int) -> None:
    bidders = some_bidders(seed)
    prices = some_prices(bidders, seed)
    replies = best_replies(bidders, unpriced_growth(bidders, prices))
    slack = 0.3 * max(1.0, float(np.abs(replies.value).max())) + 0.123
    nearly_best = replies.nearly_best(bidders, no_limits(bidders), slack, 100_000)
    assert nearly_best is not None
    for kind, found in enumerate(nearly_best):
        best = float(replies.value[kind])
        expected = {
            tuple(choice.tolist()): best - reduced(bidders, kind, choice, prices)
            for choice in all_choices(bidders, kind)
            if reduced(bidders, kind, choice, prices) >= best - slack
        }
        lost = dict(zip(map(tuple, found.counts.tolist()), found.loss.tolist(), strict=True))
        assert lost.keys() == expected.keys()
        assert min(lost.values()) == pytest.approx(0.0, abs=1e-9 * slack)


@pytest.mark.parametrize("seed", SEEDS[::4])
def test_among_the_ways_that_are_nearly_best_the_best_reply_is_the_same(seed: int) -> None:
    bidders = some_bidders(seed)
    duals = unpriced_growth(bidders, some_prices(bidders, seed))
    replies = best_replies(bidders, duals)
    layout = replies.layout_within(bidders, 0.01 * abs(float(replies.value.max())))
    again = best_replies(bidders, duals, layout=layout)
    assert np.array_equal(again.value, replies.value)
    assert np.array_equal(again.counts, replies.counts)


@pytest.mark.parametrize("seed", SEEDS)
def test_who_grows_pays_what_growth_costs(seed: int) -> None:
    bidders = some_bidders(seed)
    prices, growth = (
        some_prices(bidders, seed),
        np.random.default_rng(seed).normal(size=len(bidders.groups)) * 1000,
    )
    replies = best_replies(bidders, Duals(prices, growth))
    growth = growth @ bidders.groups
    for kind, counts in enumerate(replies.counts):
        held = bidders.held_by_kind[kind].sum()

        def worth(choice: Counts, kind: int = kind, held: int = held) -> float:
            return reduced(bidders, kind, choice, prices) - float(growth[kind] * (choice.sum() > held))

        assert replies.value[kind] == pytest.approx(max(map(worth, all_choices(bidders, kind))))
        assert worth(counts) == pytest.approx(replies.value[kind])


def some_limits(bidders: Bidders, draw: np.random.Generator) -> Limits:
    """For each bid of a size until a time, and of an end."""
    limits = no_limits(bidders)
    for bid in range(len(bidders.whose)):
        time = int(draw.integers(len(bidders.last_of_life)))
        narrower = limits.at_most if draw.random() < 0.5 else limits.more_than
        limits = narrower([bid], time, int(draw.integers(3)))
        time = int(draw.integers(len(bidders.last_of_life)))
        limits = limits.with_end([bid], time, int(draw.integers(-1, 2)))
    return limits


@pytest.mark.parametrize("seed", SEEDS)
def test_within_limits_nothing_is_better_than_the_best_reply(seed: int) -> None:
    bidders = some_bidders(seed)
    prices, draw = some_prices(bidders, seed), np.random.default_rng(seed)
    limits = some_limits(bidders, draw)
    replies = best_replies(bidders, unpriced_growth(bidders, prices), limits)
    for kind, counts in enumerate(replies.counts):
        allowed = [choice for choice in all_choices(bidders, kind) if is_within(bidders, limits, kind, choice)]
        values = [reduced(bidders, kind, choice, prices) for choice in allowed]
        best = max(values, default=-np.inf)
        assert replies.value[kind] == pytest.approx(best)
        if best > -np.inf:
            assert is_within(bidders, limits, kind, counts)
            assert reduced(bidders, kind, counts, prices) == pytest.approx(best)


@pytest.mark.parametrize("seed", SEEDS)
def test_within_limits_every_choice_that_is_nearly_as_good_is_found(seed: int) -> None:
    bidders, draw = some_bidders(seed), np.random.default_rng(seed)
    prices, limits = some_prices(bidders, seed), some_limits(bidders, draw)
    grows = draw.integers(0, 3, len(bidders.number)).tolist()  # 0: nobody, 1: all, 2: who wants to
    for kind, number in enumerate(bidders.number.tolist()):
        if grows[kind] < 2:
            narrower = limits.more_growing_than if grows[kind] else limits.at_most_growing
            limits = narrower(kind, number - 1 if grows[kind] else 0)
    replies = best_replies(bidders, unpriced_growth(bidders, prices), limits)
    slack = 0.3 * float(np.abs(replies.value[np.isfinite(replies.value)]).max(initial=1.0)) + 0.123
    nearly_best = replies.nearly_best(bidders, limits, slack, 100_000)
    assert nearly_best is not None
    for kind, found in enumerate(nearly_best):
        best, held = float(replies.value[kind]), bidders.held_by_kind[kind].sum()
        expected = {
            tuple(choice.tolist())
            for choice in all_choices(bidders, kind)
            if is_within(bidders, limits, kind, choice)
            and (grows[kind] == 2 or grows[kind] == (choice.sum() > held))
            and reduced(bidders, kind, choice, prices) >= best - slack
            and best > -np.inf
        }
        assert set(map(tuple, found.counts.tolist())) == expected
        assert len(found.counts) == len(expected)


def is_within(bidders: Bidders, limits: Limits, kind: int, counts: Counts) -> bool:
    bids = [bid for bid in bidders.bids_for(kind, counts) if may_take(bidders, bid, counts)]
    return bool(limits.hold(np.array(bids, dtype=int), bidders.sizes_of(counts)[None]).any())


@pytest.mark.parametrize("positions", [1, 2, 7, 16, 33])
def test_the_largest_of_those_before_is_found_for_windows_of_any_width(positions: int) -> None:
    draw = np.random.default_rng(positions)
    table, widths = draw.normal(size=(40, positions)), draw.integers(1, max(2, positions), 40)
    expected = [
        [max(row[max(0, at - width) : at], default=-np.inf) for at in range(positions)]
        for row, width in zip(table.tolist(), widths.tolist(), strict=True)
    ]
    assert Windows(widths, positions).largest_before(table).tolist() == expected
