from __future__ import annotations

import pytest

from freetrain.showing.ticks import time_axis

DAY_S = 86400.0
NOON_S = 1_700_049_600.0  # 2023-11-15 12:00


def test_ten_minutes() -> None:
    axis = time_axis(NOON_S + 30, NOON_S + 630, 8)
    assert axis.labels == ("12:02", "12:04", "12:06", "12:08", "12:10")
    assert axis.caption == "2023-11-15, UTC"


def test_days_are_iso_dates_at_midnight() -> None:
    axis = time_axis(NOON_S, NOON_S + 1.5 * DAY_S, 8)
    assert axis.labels == ("12:00", "18:00", "2023-11-16", "06:00", "12:00", "18:00", "2023-11-17")
    assert axis.caption == "UTC"


@pytest.mark.parametrize("days", range(2, 400, 3))
def test_a_telephone_shows_two_dates_at_least(days: int) -> None:
    axis = time_axis(NOON_S, NOON_S + days * DAY_S, 3)
    assert 2 <= len(axis.labels) <= 6
    assert all(len(label) == 10 for label in axis.labels) or days < 4


def test_months_begin_with_their_first() -> None:
    axis = time_axis(NOON_S, NOON_S + 300 * DAY_S, 4)
    assert axis.labels == ("2024-01-01", "2024-04-01", "2024-07-01")


@pytest.mark.parametrize("span_s", [3.0, 600.0, 7e3, DAY_S, 14 * DAY_S, 90 * DAY_S, 5000 * DAY_S, 30000 * DAY_S])
@pytest.mark.parametrize("most", [3, 4, 8])
def test_marks_are_few_and_within(span_s: float, most: int) -> None:
    axis = time_axis(NOON_S, NOON_S + span_s, most)
    assert 2 <= len(axis.at_s) <= 2 * most
    assert all(NOON_S <= at_s <= NOON_S + span_s for at_s in axis.at_s)
