""""""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from freetrain.core.throughput import Observation, ScalingModel, check_curve, fit_throughput, rates, usable


def test_a_curve_is_linear_between_its_points_and_from_nothing() -> None:
    assert rates(((2, 10.0), (4, 14.0)), 4).tolist() == [0.0, 5.0, 10.0, 12.0, 14.0]


def test_a_curve_is_flat_beyond_its_last_point() -> None:
    assert rates(((1, 3.0), (2, 5.0)), 4).tolist() == [0.0, 3.0, 5.0, 5.0, 5.0]


def test_an_explicit_origin_changes_nothing() -> None:
    assert rates(((0, 0.0), (2, 8.0)), 2).tolist() == rates(((2, 8.0),), 2).tolist()


def test_shared_tables_cannot_be_written_to() -> None:
    with pytest.raises(ValueError, match="read-only"):
        rates(((1, 1.0),), 1)[0] = 7


@pytest.mark.parametrize(
    ("curve", "complaint"),
    [
        ((), "at least one"),
        (((2, 1.0), (1, 2.0)), "ascending"),
        (((1, 1.0), (1, 2.0)), "ascending"),
        (((1, -1.0),), "negative"),
        (((0, 1.0), (1, 2.0)), "0 nodes is 0"),
        (((1, 1.0), (2, 0.0)), "never get on"),
    ],
)
def test_what_is_no_curve_is_told_in_a_sentence(curve: tuple[tuple[int, float], ...], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        check_curve(curve)


def amdahl(nodes: int) -> float:
    return 1 / (0.001 + 0.02 / nodes)


def ring(nodes: int) -> float:
    return 1 / (0.02 / nodes + 0.002 * (nodes - 1) / nodes + 0.0003 * (nodes - 1))


def test_finds_amdahl_again() -> None:
    fit = fit_throughput([Observation(nodes, amdahl(nodes)) for nodes in (1, 2, 4, 8)], 32)
    assert fit.observations == fit.sizes == 4
    assert fit.relative_error < 1e-9
    for nodes, rate in fit.curve:
        assert rate == pytest.approx(amdahl(nodes), rel=1e-6)


def test_finds_a_ring_that_gets_slower_again() -> None:
    fit = fit_throughput([Observation(nodes, ring(nodes)) for nodes in (1, 2, 3, 5, 8)], 40)
    assert fit.model is ScalingModel.RING
    assert fit.coefficients == pytest.approx((0.02, 0.002, 0.0003))
    assert dict(fit.curve)[40] == pytest.approx(ring(40))
    assert dict(fit.curve)[40] < dict(fit.curve)[8]


def test_noise_is_reported_as_error_and_measurements_are_kept() -> None:
    noise = {1: 1.05, 2: 0.95, 4: 1.05, 8: 0.95, 12: 1.05}
    fit = fit_throughput([Observation(nodes, amdahl(nodes) * factor) for nodes, factor in noise.items()], 16)
    assert 0.01 < fit.relative_error < 0.1
    assert dict(fit.curve)[4] == pytest.approx(amdahl(4) * 1.05)
    assert dict(fit.curve)[16] == pytest.approx(amdahl(16), rel=0.2)


def test_several_observations_of_a_size_are_weighted() -> None:
    fit = fit_throughput([Observation(2, 100, weight=3), Observation(2, 200, weight=1), Observation(4, 150)], 4)
    assert dict(fit.curve)[2] == pytest.approx(125)
    assert (fit.observations, fit.sizes) == (3, 2)
    assert math.isnan(fit.relative_error)


def test_one_size_promises_nothing_beyond() -> None:
    fit = fit_throughput([Observation(2, 100), Observation(2, 120)], 8)
    assert fit.model is ScalingModel.MEASURED
    assert rates(fit.curve, 4).tolist() == pytest.approx([0, 55, 110, 110, 110])


def test_nothing_to_fit() -> None:
    with pytest.raises(ValueError, match="no observation"):
        fit_throughput([Observation(0, 5), Observation(2, 0)], 4)


@given(
    st.dictionaries(st.integers(1, 20), st.floats(1, 1e6), min_size=1, max_size=8),
    st.integers(1, 64),
)
def test_any_measurements_make_a_valid_curve_through_them(measured: dict[int, float], most_nodes: int) -> None:
    fit = fit_throughput([Observation(nodes, rate) for nodes, rate in measured.items()], most_nodes)
    check_curve(fit.curve)
    assert all(math.isfinite(rate) and rate > 0 for _, rate in fit.curve)
    for nodes, rate in measured.items():
        assert dict(fit.curve)[nodes] == pytest.approx(rate)


def test_what_cannot_be_believed_is_left_out() -> None:
    good = Observation(2, 100.0, 5.0)
    wrong = [
        Observation(2, math.inf), Observation(2, math.nan), Observation(10**400, 1.0), Observation(1, 10**400),
        Observation(True, 1.0), Observation(1, 1e-320), Observation(2, 1e308), Observation(1, 1.0, math.inf),
        Observation(1, 1.0, math.nan), Observation(0, 1.0), Observation(1, -1.0), Observation(2.0, 1.0),  # type: ignore[arg-type]
    ]  # fmt: skip
    assert usable([*wrong, good]) == (good,)
    assert fit_throughput([*wrong, good], 8).curve == ((2, 100.0),)


def test_a_decomposition_that_comes_to_no_end_leaves_what_was_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise np.linalg.LinAlgError("SVD did not converge in Linear Least Squares")

    monkeypatch.setattr(np.linalg, "lstsq", fail)
    fit = fit_throughput([Observation(1, 100.0), Observation(4, 300.0)], 8)
    assert fit.model is ScalingModel.MEASURED
    assert fit.curve == ((1, 100.0), (4, 300.0))


HOSTILE = st.builds(
    Observation,
    st.one_of(st.integers(1, 12), st.integers(1, 100_000)),
    st.one_of(st.floats(1e-9, 1e12), st.sampled_from([1e-9, 1e12, 1.0])),
    st.one_of(st.floats(1e-9, 1e9), st.sampled_from([1e-9, 1e9, 5.0])),
)


@settings(max_examples=500, deadline=None)
@given(st.lists(HOSTILE, min_size=1, max_size=30), st.integers(1, 64))
@pytest.mark.filterwarnings("error")
def test_whatever_is_believed_makes_a_finite_curve(seen: list[Observation], most_nodes: int) -> None:
    assert usable(seen) == tuple(seen)
    fit = fit_throughput(seen, most_nodes)
    check_curve(fit.curve)
    assert all(0 < rate < 1.01e12 for _, rate in fit.curve)
