"""How many workers and servers: the grid against trying all."""

from __future__ import annotations

import itertools
import random

import pytest

from freetrain.policies.smd.inner import (
    Point,
    ServerModel,
    SizeLimits,
    fastest,
    fastest_on_grid,
    fit_servers,
    on_the_way,
)
from tests.oracle.systems import Layer, layered_step_s

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


SIZES = tuple(itertools.product((1, 2, 4, 8, 12, 16), (1, 2, 4, 8)))


def test_the_terms_add_up() -> None:
    model = ServerModel((0.005, 0.02, 0.1, 0.001, 0.001), 256)
    assert float(model.step_s(7, 10)) == pytest.approx(0.289857, abs=5e-7)
    assert float(model.step_s(8, 8)) == pytest.approx(0.2960)
    assert float(model.step_s(1, 1)) == pytest.approx(1.402)


@pytest.mark.parametrize("coefficients", [(0.005, 0.02, 0.1, 0.001, 0.001), (0.01, 0.0, 0.05, 0.0, 0.002)])
def test_a_fit_finds_the_coefficients_that_the_points_come_from(
    coefficients: tuple[float, float, float, float, float],
) -> None:
    model = ServerModel(coefficients, 128)
    points = [Point(w, p, float(model.step_s(w, p))) for w, p in SIZES]
    assert fit_servers(points, 128).coefficients == pytest.approx(coefficients, abs=1e-9)


def test_too_few_sizes_are_not_fitted() -> None:
    four = [Point(workers, 1, 1.0) for workers in (1, 2, 4, 8)]
    with pytest.raises(ValueError, match="5 different sizes"):
        fit_servers(four * 3, 128)


def test_the_model_comes_close_to_steps_whose_layers_are_sent_while_others_compute() -> None:
    errors = []
    for seed in range(10):
        draw = random.Random(seed)
        layers = [
            Layer(draw.uniform(2e-4, 2e-3), draw.uniform(2e-3, 1e-2), draw.choice((1e6, 4e6, 2e7, 8e7)))
            for _ in range(draw.randint(4, 12))
        ]
        points = []
        for w, p in SIZES:
            samples = 128 / w
            send_s = lambda layer, w=w, p=p: layer.gradient_bytes * max(1.0, w / p) / 1.25e9 + 5e-5  # noqa: E731
            step_s = layered_step_s(layers, samples, send_s, 2e-10 * w / p)
            computes_s = sum(layer.forward_s * samples + layer.backward_s for layer in layers)
            sends_s = sum(map(send_s, layers))
            updates_s = sum(2e-10 * w / p * layer.gradient_bytes for layer in layers)
            assert max(computes_s, sends_s) - 1e-9 <= step_s <= computes_s + 2 * sends_s + updates_s + 1e-9
            points.append(Point(w, p, step_s))
        model = fit_servers(points, 128)
        errors += [abs(float(model.step_s(point.workers, point.servers)) / point.step_s - 1) for point in points]
    assert sum(errors) / len(errors) < 0.08
