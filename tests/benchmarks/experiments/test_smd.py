"""Which trainings run: the knapsack, and what stands in for HiGHS; and which sizes they may have."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence

import pytest

from benchmarks.experiments.smd import RunOption, SizeLimits, choose, fastest, fastest_on_grid, on_the_way
from freetrain.guest.guest import Ask, Guest
from freetrain.policies.binary_programme import BinaryProgramme
from freetrain.policies.smd import ServerModel, sigmoid

LONG_S = 30.0
_HERE = "tests.benchmarks.experiments.test_smd"


def random_options(seed: int, jobs: int) -> list[RunOption]:
    draw = random.Random(seed)
    return [
        RunOption(job, draw.uniform(1, 100), (draw.uniform(1, 8), draw.uniform(5, 60), draw.uniform(10, 200)))
        for job in range(jobs)
    ]


CAPACITY = (16.0, 100.0, 500.0)


def fits(options: Sequence[RunOption], chosen: Sequence[int]) -> bool:
    jobs = [options[number].job for number in chosen]
    totals = [sum(options[number].demand[resource] for number in chosen) for resource in range(3)]
    return len(set(jobs)) == len(jobs) and all(a <= b + 1e-6 for a, b in zip(totals, CAPACITY, strict=True))


def never_whole(programme: BinaryProgramme, *, left_s: Callable[[], float]) -> object:
    """A solver that can do linear programmes only."""
    from freetrain.policies.binary_programme import solve

    return (None, "no integers today") if programme.integral else solve(programme, left_s=left_s)


def dies(programme: BinaryProgramme, *, left_s: Callable[[], float]) -> object:
    raise SystemExit


def lies(programme: BinaryProgramme, *, left_s: Callable[[], float]) -> object:
    return (1.0,) * len(programme.values), ""


@pytest.fixture
def planted() -> Iterator[Callable[[Callable[..., object]], Ask]]:
    guest = Guest(imports=(_HERE,))
    yield lambda function: guest.asking(f"{_HERE}:{function.__name__}")
    guest.close()


def test_where_there_are_no_integers_the_relaxation_is_rounded_and_loses_little(
    planted: Callable[[Callable[..., object]], Ask],
) -> None:
    losses = []
    for seed in range(10):
        options = random_options(seed, 40)
        best = choose(options, CAPACITY, LONG_S)
        rounded = choose(options, CAPACITY, LONG_S, planted(never_whole))
        assert rounded.by == "rounding"
        assert fits(options, rounded.options)
        assert "no integers today" in rounded.why
        losses.append(1 - rounded.value / best.value)
    assert sum(losses) / len(losses) < 0.1


@pytest.mark.parametrize("solver", [dies, lies])
def test_where_highs_fails_all_is_filled_up_and_it_is_said(
    solver: Callable[..., object], planted: Callable[[Callable[..., object]], Ask]
) -> None:
    options = random_options(0, 40)
    found = choose(options, CAPACITY, LONG_S, planted(solver))
    assert found.by == "filling up"
    assert found.why
    assert fits(options, found.options)
    assert found.value > 0


def test_what_is_worth_nothing_or_too_large_does_not_run() -> None:
    options = [
        RunOption(0, 0.0, (1.0, 1.0, 1.0)),
        RunOption(1, 5.0, (17.0, 1.0, 1.0)),
        RunOption(2, 1.0, (1.0, 1.0, 1.0)),
    ]
    assert choose(options, CAPACITY, LONG_S).options == (2,)


def test_completion_is_worth_half_at_the_deadline_and_nothing_overflows() -> None:
    assert sigmoid(5.0, 80.0, 2.0, 5.0) == pytest.approx(40.0)
    assert sigmoid(0.0, 80.0, 6.0, 5.0) == pytest.approx(80.0)
    assert sigmoid(1e9, 80.0, 6.0, 5.0) == pytest.approx(0.0)
    assert sigmoid(7.0, 80.0, 0.0, 5.0) == pytest.approx(40.0)


def test_the_fastest_size_can_cost_more_completions_than_it_speeds_up() -> None:
    """Why SMD can be worse than as many servers as workers: 3 % faster, and one of two trainings does not run.

    A task takes a CPU, of 20; (5, 7) is the fastest size, (5, 5) the fastest with as many servers as workers. With
    both to choose from, as ``sizes = "menu"`` has, nothing is lost.
    """
    model = ServerModel((0.01, 0.0, 0.2, 0.02, 0.02), 100)
    limits = SizeLimits((1.0,), (1.0,), (20.0,), 16, 16)
    assert fastest(model, limits) == (5, 7)
    assert float(model.step_s(5, 5) / model.step_s(5, 7)) == pytest.approx(1.0294, abs=5e-4)

    def worth(*pairs: tuple[int, int]) -> float:
        """Of two such trainings of 100 hours at the fastest size, worth half of 1 if they take 101."""
        options = [
            RunOption(
                job,
                sigmoid(100 * float(model.step_s(*pair) / model.step_s(5, 7)), 1.0, 0.1, 101.0),
                limits.demand(*pair),
            )
            for job in range(2)
            for pair in pairs
        ]
        return choose(options, (20.0,), LONG_S).value

    assert worth((5, 7)) == pytest.approx(0.52, abs=0.01)
    assert worth((5, 5)) == pytest.approx(0.90, abs=0.01)
    assert worth((5, 7), (5, 5)) == worth((5, 5))


MODEL = ServerModel((0.005, 0.02, 0.1, 0.001, 0.001), 256)


def test_more_servers_than_workers_may_be_best() -> None:
    limits = SizeLimits((4.0,), (2.0,), (48.0,), most_workers=16)
    assert fastest(MODEL, limits) == (7, 10)
    assert fastest_on_grid(MODEL, limits) == (7, 10)


def random_training(seed: int) -> tuple[ServerModel, SizeLimits]:
    draw = random.Random(seed)
    ranges = ((0.002, 0.02), (0.01, 0.05), (0.02, 0.2), (0.0, 0.002), (0.0, 0.002))
    a, b, c, d, e = (draw.uniform(*bounds) for bounds in ranges)
    model = ServerModel((a, b, c, d, e), draw.choice((64, 128, 256, 512)))
    limits = SizeLimits(
        (1.0, draw.uniform(1, 5), draw.uniform(4, 20)),
        (0.0, draw.uniform(1, 5), draw.uniform(4, 20)),
        (draw.uniform(1, 32), draw.uniform(8, 100), draw.uniform(40, 400)),
        32,
        32,
    )
    return model, limits


def test_the_grid_finds_the_only_size_that_is_allowed() -> None:
    model = ServerModel((0.01, 0.02, 0.1, 0.001, 0.001), 64)
    limits = SizeLimits((6.0, 6.0, 2.0), (1.0, 6.0, 3.0), (27.0, 12.0, 8.0), 32, 32)
    assert fastest(model, limits) == fastest_on_grid(model, limits) == (1, 1)


@pytest.mark.parametrize("seed", range(20))
def test_the_menu_ends_with_the_fastest_size(seed: int) -> None:
    model, limits = random_training(seed)
    menu, best = on_the_way(model, limits), fastest(model, limits)
    assert all(limits.allow(*pair) for pair in menu)
    assert (menu[-1] if menu else None) == best


def test_who_may_not_even_have_one_of_each_gets_nothing() -> None:
    limits = SizeLimits((4.0,), (2.0,), (5.0,))
    assert fastest(MODEL, limits) is None
    assert fastest_on_grid(MODEL, limits) is None
    assert on_the_way(MODEL, limits) == []
