"""The model of five coefficients, the layered recurrence, and the fit of the one to the other."""

from __future__ import annotations

import itertools

import pytest

from freetrain.policies.smd.speed import Point, ServerModel, fit_servers

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
