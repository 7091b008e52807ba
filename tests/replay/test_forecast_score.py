"""Forecasts beside what the log says of the same nodes later."""

from __future__ import annotations

import numpy as np
import pytest

from freetrain.core.holes import Holes, sorted_holes
from freetrain.lending.stays import Stays
from freetrain.replay.foresight import AHEAD_S, ForecastLog


def holes(*rows: tuple[int, float, float], until_s: float = 100_000.0) -> Holes:
    node, start_s, end_s = (np.array([row[column] for row in rows], dtype=float) for column in range(3))
    names = tuple(f"n{number}" for number in range(4))
    return sorted_holes(names, node.astype(np.int32), start_s, end_s, 0.0, until_s)


def stays(expected_s: float, **since_s: float) -> Stays:
    """Nodes of every age are expected to stay so long."""
    return Stays(idle_node_s=expected_s * 1e6, left=1e6, since_s=since_s)


def test_the_error_is_that_of_each_forecast_and_the_means_show_which_way() -> None:
    log = ForecastLog(holes((0, 0, 500), (1, 0, 1500)))
    log.note(0.0, stays(1000.0, n0=0.0, n1=0.0))
    (error,) = log.score().learned
    assert (error.up_to_s, error.forecasts) == (1200.0, 2)
    assert (error.expected_s, error.came_s, error.off_s) == pytest.approx((1000.0, 1000.0, 500.0))


def test_a_probability_is_compared_with_the_share_that_stayed() -> None:
    log = ForecastLog(holes((0, 0, 200), (1, 0, 2000), (2, 0, 90_000)))
    log.note(0.0, stays(1000.0, n0=0.0, n1=0.0, n2=0.0))
    found = {band.ahead_s: band for band in log.score().calibration}
    assert [found[ahead_s].expected for ahead_s in AHEAD_S] == pytest.approx([np.exp(-s / 1000) for s in AHEAD_S])
    assert [found[ahead_s].came for ahead_s in AHEAD_S] == pytest.approx([2 / 3, 2 / 3, 1 / 3])


def test_what_reaches_the_end_of_the_window_is_compared_only_before_it() -> None:
    log = ForecastLog(holes((0, 0, 5000), until_s=1300.0))
    log.note(0.0, stays(1000.0, n0=0.0))
    score = log.score()
    assert score.learned == ()
    assert [(band.ahead_s, band.came) for band in score.calibration] == [(300.0, 1.0), (1200.0, 1.0)]


def test_plans_are_compared_with_when_nodes_were_really_taken() -> None:
    log = ForecastLog(holes((0, 0, 400), (0, 600, 900), (1, 0, 1000)))
    log.note(700.0, stays(1000.0), [("n0", 800.0), ("n1", 1000.0), ("n2", 900.0)])
    first, second = log.score().planned
    assert (first.forecasts, first.expected_s, first.came_s, first.off_s) == (1, 100.0, 200.0, 100.0)
    assert (second.forecasts, second.expected_s, second.came_s, second.off_s) == (1, 300.0, 300.0, 0.0)


def test_forecasts_are_compared_now_and_then() -> None:
    log = ForecastLog(holes((0, 0, 90_000)))
    for now_s in range(0, 3000, 10):
        log.note(float(now_s), stays(1000.0, n0=0.0))
    (error,) = log.score().learned
    assert error.forecasts == 5
