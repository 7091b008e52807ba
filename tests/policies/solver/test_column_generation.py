"""Columns: pricing finds the best, the master combines only allowed ones and always has a solution."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np
import pytest

from benchmarks.problems import mixed_problem, with_boots, with_kinds
from freetrain.core.place import Place
from freetrain.core.problem import Counts, Problem
from freetrain.core.trainer import Trainer
from freetrain.core.value import total_value
from freetrain.policies.solver.column_generation import Duals, Master, solve_pricing
from freetrain.policies.solver.pricing_dp import SlidingMaximum
from freetrain.policies.solver.trainer_types import BranchLimits, TrainerTypes, no_limits, types_of


def three_alike() -> tuple[TrainerTypes, Master]:
    """Nobody has a node yet; one node is worth 10 a second to each, two are worth 18."""
    trainers = tuple(Trainer(f"t{number}", ((1, 10.0), (2, 18.0)), scale_up_s=0.0) for number in range(3))
    nodes = tuple(Place(f"n{number}", None if number < 2 else 60.0) for number in range(4))
    trainers, _ = types_of(Problem(0.0, nodes, trainers, 120.0, "throughput"))
    master = Master(trainers)
    for column in ([0, 0], [1, 0], [0, 1], [1, 1], [0, 2]):
        master.add(0, np.array(column))
    return trainers, master


def taken_of(master: Master, column: list[int]) -> float:
    return float(master.relax()[2][(master.counts == column).all(axis=1)].sum())


def growing(master: Master) -> float:
    return float(master.relax()[2][master.counts.any(axis=1)].sum())


def test_no_more_trainers_grow_than_may_and_no_fewer_than_must() -> None:
    trainers, master = three_alike()
    free = master.relax()[0]
    assert growing(master) == pytest.approx(3)
    master.apply_limits(no_limits(trainers).at_most_growing(0, 1))
    assert growing(master) == pytest.approx(1)
    assert master.relax()[1].growth[0] > 0
    master.apply_limits(no_limits(trainers).more_growing_than(0, 2))
    assert growing(master) == pytest.approx(3)
    master.apply_limits(no_limits(trainers))
    assert master.relax()[0] == pytest.approx(free)
    assert master.relax()[1].growth[0] == 0.0


def test_columns_outside_the_limits_are_taken_only_where_there_is_no_other() -> None:
    trainers, master = three_alike()
    master.apply_limits(no_limits(trainers).at_most([0], 0, 0))
    assert taken_of(master, [1, 0]) == taken_of(master, [1, 1]) == 0
    master.apply_limits(no_limits(trainers).at_most([0], 1, -1))
    worth, _, taken = master.relax()
    assert worth < 0
    assert taken.sum() == pytest.approx(3)


SEEDS = [seed for seed in range(60) if len(mixed_problem(seed, lives=True).classes) > 1]


def some_bidders(seed: int) -> TrainerTypes:
    """The new nodes of every other problem's trainers must boot; nodes of every third one differ in kind."""
    problem = mixed_problem(seed, lives=True)
    problem = with_kinds(problem, seed, 2) if seed % 3 == 0 else problem
    return types_of(with_boots(problem, seed) if seed % 2 else problem)[0]


def all_choices(trainers: TrainerTypes, type_id: int) -> Iterator[Counts]:
    """Of what is there: all kept and some more of one choice that boot in time, or none got and some lost."""
    for trainer in product(*(range(count + 1) for count in trainers.capacity.tolist())):
        counts = np.array(trainer, dtype=np.int64)
        stays_within = counts.sum() < trainers.worth.shape[1]
        if stays_within and any(
            may_take(trainers, choice, counts) for choice in np.flatnonzero(trainers.type_of == type_id)
        ):
            yield counts


def may_take(trainers: TrainerTypes, choice: int, counts: Counts) -> bool:
    held, joins = trainers.held[choice], trainers.joins[choice]
    grows = (counts >= held).all() and joins[counts > held].all()
    return bool(grows or (counts <= held).all())


def reduced(trainers: TrainerTypes, type_id: int, counts: Counts, prices: np.ndarray) -> float:
    return float(trainers.values_of(type_id, counts) - counts @ prices)


def unpriced_growth(trainers: TrainerTypes, prices: np.ndarray) -> Duals:
    return Duals(prices, np.zeros(len(trainers.groups)))


def test_a_task_is_worth_no_more_where_it_could_end_before_it_has_booted() -> None:
    """Nodes that stay 300 s belong to the choice of a node that leaves before that, too."""
    task = Trainer("t", ((2, 20.0),), min_nodes=2, boot_s=60.0, forced_loss_s=600.0, moldable=True)
    nodes = tuple(Place(f"n{number}", 300.0 if number else 30.0) for number in range(3))
    problem = Problem(0.0, nodes, (task,), horizon_s=1200.0, objective="throughput")
    trainers, _ = types_of(problem)
    counts = np.array([2, 0])
    assert trainers.values_of(0, counts) == total_value(problem, counts[None, :]) == (300 - 60 - 600) * 20


def some_prices(trainers: TrainerTypes, seed: int) -> np.ndarray:
    """About as much as a node is worth."""
    return np.random.default_rng(seed).uniform(0, 2, len(trainers.capacity)) * trainers.worth.max() * 10


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_is_better_than_the_best_reply(seed: int) -> None:
    trainers = some_bidders(seed)
    prices = some_prices(trainers, seed)
    pricing = solve_pricing(trainers, unpriced_growth(trainers, prices), no_limits(trainers))
    for type_id, counts in enumerate(pricing.counts):
        best = max(reduced(trainers, type_id, choice, prices) for choice in all_choices(trainers, type_id))
        assert pricing.value[type_id] == pytest.approx(best)
        assert reduced(trainers, type_id, counts, prices) == pytest.approx(best)
        assert any((counts == choice).all() for choice in all_choices(trainers, type_id))


@pytest.mark.parametrize("seed", SEEDS)
def test_every_choice_that_is_nearly_as_good_is_found_and_no_other(seed: int) -> None:
    trainers = some_bidders(seed)
    prices = some_prices(trainers, seed)
    pricing = solve_pricing(trainers, unpriced_growth(trainers, prices), no_limits(trainers))
    slack = 0.3 * max(1.0, float(np.abs(pricing.value).max())) + 0.123
    enumerate_columns = pricing.enumerate_columns(slack, 100_000)
    assert enumerate_columns is not None
    for type_id, found in enumerate(enumerate_columns):
        best = float(pricing.value[type_id])
        expected = {
            tuple(choice.tolist()): best - reduced(trainers, type_id, choice, prices)
            for choice in all_choices(trainers, type_id)
            if reduced(trainers, type_id, choice, prices) >= best - slack
        }
        lost = dict(zip(map(tuple, found.counts.tolist()), found.loss.tolist(), strict=True))
        assert lost.keys() == expected.keys()
        assert min(lost.values()) == pytest.approx(0.0, abs=1e-9 * slack)


@pytest.mark.parametrize("seed", SEEDS[::4])
def test_among_the_ways_that_are_nearly_best_the_best_reply_is_the_same(seed: int) -> None:
    trainers = some_bidders(seed)
    duals = unpriced_growth(trainers, some_prices(trainers, seed))
    pricing = solve_pricing(trainers, duals, no_limits(trainers))
    structure = pricing.structure_within(0.01 * abs(float(pricing.value.max())))
    retry = solve_pricing(trainers, duals, no_limits(trainers), structure)
    assert np.array_equal(retry.value, pricing.value)
    assert np.array_equal(retry.counts, pricing.counts)


@pytest.mark.parametrize("seed", SEEDS)
def test_who_grows_pays_what_growth_costs(seed: int) -> None:
    trainers = some_bidders(seed)
    prices, growth = (
        some_prices(trainers, seed),
        np.random.default_rng(seed).normal(size=len(trainers.groups)) * 1000,
    )
    pricing = solve_pricing(trainers, Duals(prices, growth), no_limits(trainers))
    growth = growth @ trainers.groups
    for type_id, counts in enumerate(pricing.counts):
        held = trainers.held_by_type[type_id].sum()

        def worth(choice: Counts, type_id: int = type_id, held: int = held) -> float:
            return reduced(trainers, type_id, choice, prices) - float(growth[type_id] * (choice.sum() > held))

        assert pricing.value[type_id] == pytest.approx(max(map(worth, all_choices(trainers, type_id))))
        assert worth(counts) == pytest.approx(pricing.value[type_id])


def some_limits(trainers: TrainerTypes, draw: np.random.Generator) -> BranchLimits:
    """For each bid of a size until a time, and of an end."""
    limits = no_limits(trainers)
    for choice in range(len(trainers.type_of)):
        time = int(draw.integers(len(trainers.last_of_life)))
        narrower = limits.at_most if draw.random() < 0.5 else limits.more_than
        limits = narrower([choice], time, int(draw.integers(3)))
        time = int(draw.integers(len(trainers.last_of_life)))
        limits = limits.with_end([choice], time, int(draw.integers(-1, 2)))
    return limits


@pytest.mark.parametrize("seed", SEEDS)
def test_within_limits_nothing_is_better_than_the_best_reply(seed: int) -> None:
    trainers = some_bidders(seed)
    prices, draw = some_prices(trainers, seed), np.random.default_rng(seed)
    limits = some_limits(trainers, draw)
    pricing = solve_pricing(trainers, unpriced_growth(trainers, prices), limits)
    for type_id, counts in enumerate(pricing.counts):
        allowed = [
            choice for choice in all_choices(trainers, type_id) if is_within(trainers, limits, type_id, choice)
        ]
        values = [reduced(trainers, type_id, choice, prices) for choice in allowed]
        best = max(values, default=-np.inf)
        assert pricing.value[type_id] == pytest.approx(best)
        if best > -np.inf:
            assert is_within(trainers, limits, type_id, counts)
            assert reduced(trainers, type_id, counts, prices) == pytest.approx(best)


@pytest.mark.parametrize("seed", SEEDS)
def test_within_limits_every_choice_that_is_nearly_as_good_is_found(seed: int) -> None:
    trainers, draw = some_bidders(seed), np.random.default_rng(seed)
    prices, limits = some_prices(trainers, seed), some_limits(trainers, draw)
    grows = draw.integers(0, 3, len(trainers.number)).tolist()  # 0: nobody, 1: all, 2: who wants to
    for type_id, number in enumerate(trainers.number.tolist()):
        if grows[type_id] < 2:
            narrower = limits.more_growing_than if grows[type_id] else limits.at_most_growing
            limits = narrower(type_id, number - 1 if grows[type_id] else 0)
    pricing = solve_pricing(trainers, unpriced_growth(trainers, prices), limits)
    slack = 0.3 * float(np.abs(pricing.value[np.isfinite(pricing.value)]).max(initial=1.0)) + 0.123
    enumerate_columns = pricing.enumerate_columns(slack, 100_000)
    assert enumerate_columns is not None
    for type_id, found in enumerate(enumerate_columns):
        best, held = float(pricing.value[type_id]), trainers.held_by_type[type_id].sum()
        expected = {
            tuple(choice.tolist())
            for choice in all_choices(trainers, type_id)
            if is_within(trainers, limits, type_id, choice)
            and (grows[type_id] == 2 or grows[type_id] == (choice.sum() > held))
            and reduced(trainers, type_id, choice, prices) >= best - slack
            and best > -np.inf
        }
        assert set(map(tuple, found.counts.tolist())) == expected
        assert len(found.counts) == len(expected)


def is_within(trainers: TrainerTypes, limits: BranchLimits, type_id: int, counts: Counts) -> bool:
    choices = [
        choice for choice in trainers.choices_covering(type_id, counts) if may_take(trainers, choice, counts)
    ]
    return bool(limits.allow(np.array(choices, dtype=int), trainers.sizes_of(counts)[None]).any())


@pytest.mark.parametrize("positions", [1, 2, 7, 16, 33])
def test_the_largest_of_those_before_is_found_for_windows_of_any_width(positions: int) -> None:
    draw = np.random.default_rng(positions)
    table, widths = draw.normal(size=(40, positions)), draw.integers(1, max(2, positions), 40)
    expected = [
        [max(row[max(0, at - width) : at], default=-np.inf) for at in range(positions)]
        for row, width in zip(table.tolist(), widths.tolist(), strict=True)
    ]
    assert SlidingMaximum(widths, positions).max_before(table).tolist() == expected
