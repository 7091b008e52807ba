"""How many workers and servers: the grid against trying all."""

from __future__ import annotations

import random

import pytest

from freetrain.policies.smd.inner import Limits, fastest, fastest_on_grid, on_the_way
from freetrain.policies.smd.speed import ServerModel

MODEL = ServerModel((0.005, 0.02, 0.1, 0.001, 0.001), 256)


def test_more_servers_than_workers_may_be_best() -> None:
    limits = Limits((4.0,), (2.0,), (48.0,), most_workers=16)
    assert fastest(MODEL, limits) == (7, 10)
    assert fastest_on_grid(MODEL, limits) == (7, 10)


def random_training(seed: int) -> tuple[ServerModel, Limits]:
    draw = random.Random(seed)
    ranges = ((0.002, 0.02), (0.01, 0.05), (0.02, 0.2), (0.0, 0.002), (0.0, 0.002))
    a, b, c, d, e = (draw.uniform(*each) for each in ranges)
    model = ServerModel((a, b, c, d, e), draw.choice((64, 128, 256, 512)))
    limits = Limits(
        (1.0, draw.uniform(1, 5), draw.uniform(4, 20)),
        (0.0, draw.uniform(1, 5), draw.uniform(4, 20)),
        (draw.uniform(1, 32), draw.uniform(8, 100), draw.uniform(40, 400)),
        32,
        32,
    )
    return model, limits


def test_the_grid_stays_within_its_promise() -> None:
    worst = 1.0
    for seed in range(300):
        model, limits = random_training(seed)
        best, found = fastest(model, limits), fastest_on_grid(model, limits, 0.05)
        assert (best is None) == (found is None)
        if best is not None and found is not None:
            assert limits.allow(*found)
            worst = max(worst, float(model.step_s(*found) / model.step_s(*best)))
    assert worst <= 1.05


def test_the_grid_finds_the_only_size_that_is_allowed() -> None:
    model = ServerModel((0.01, 0.02, 0.1, 0.001, 0.001), 64)
    limits = Limits((6.0, 6.0, 2.0), (1.0, 6.0, 3.0), (27.0, 12.0, 8.0), 32, 32)
    assert fastest(model, limits) == fastest_on_grid(model, limits) == (1, 1)


@pytest.mark.parametrize("seed", range(20))
def test_the_menu_ends_with_the_fastest_size(seed: int) -> None:
    model, limits = random_training(seed)
    menu, best = on_the_way(model, limits), fastest(model, limits)
    assert all(limits.allow(*pair) for pair in menu)
    assert (menu[-1] if menu else None) == best


def test_who_may_not_even_have_one_of_each_gets_nothing() -> None:
    limits = Limits((4.0,), (2.0,), (5.0,))
    assert fastest(MODEL, limits) is None
    assert fastest_on_grid(MODEL, limits) is None
    assert on_the_way(MODEL, limits) == []
