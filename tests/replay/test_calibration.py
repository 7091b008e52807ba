"""Probabilities that came true less, or more, often than they said are put right."""

from __future__ import annotations

import pytest

from freetrain.replay.forecast_score import Calibrator


@pytest.mark.parametrize(("probability", "came"), [(0.8, 0.4), (0.2, 0.7), (0.5, 0.5)])
def test_in_the_end_a_forecast_says_what_comes(probability: float, came: float) -> None:
    calibrator = Calibrator(300.0)
    for number in range(200):
        now_s = 600.0 * number
        calibrator.learn(now_s)
        calibrator.note(now_s, calibrator.corrected(probability), 10, 10 * came)
    assert calibrator.corrected(probability) == pytest.approx(came, abs=0.06)


def test_nothing_is_learned_before_the_time_is_over() -> None:
    calibrator = Calibrator(3600.0)
    calibrator.note(0.0, 0.9, 1000, 0.0)
    calibrator.learn(3599.0)
    assert calibrator.corrected(0.9) == 0.9
    calibrator.learn(3600.0)
    assert calibrator.corrected(0.9) < 0.8
