"""How often trainers change sizes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freetrain.lending.stays import SizeChanges

DAY_S = 86400.0


def test_before_anything_was_seen_a_size_changes_every_twenty_minutes() -> None:
    assert SizeChanges().within(3600.0) == 3.0


def test_within_a_horizon_that_is_shorter_than_sizes_last_they_change_once() -> None:
    assert SizeChanges().within(60.0) == 1.0


@given(st.integers(1, 20), st.floats(5.0, 500.0))
def test_sizes_that_all_change_at_one_pace_are_expected_to_go_on_so(trainers: int, lasts_s: float) -> None:
    changes = SizeChanges()
    for number in range(500):
        changes = changes.after(number * lasts_s, {f"t{trainer}": 1 + number % 2 for trainer in range(trainers)})
    assert changes.within(10_000.0) == pytest.approx(10_000.0 / lasts_s, rel=0.5)


def test_sizes_that_stay_are_expected_to_stay_longer_and_longer() -> None:
    hour, day = (
        SizeChanges().after(0.0, {"A": 3, "B": 1}).after(now_s, {"A": 3, "B": 1}) for now_s in (3600.0, DAY_S)
    )
    assert day.within(DAY_S) < hour.within(DAY_S)


def test_growing_shrinking_and_losing_all_nodes_are_changes_and_a_start_is_none() -> None:
    changes = SizeChanges(changes=0.0)
    counted = list[float]()
    for sizes in {}, {"A": 2}, {"A": 3}, {"A": 1}, {"A": 1}, {"A": 0}, {}, {"A": 2}:
        changes = changes.after(0.0, sizes)
        counted.append(changes.changes)
    assert counted == [0, 0, 1, 2, 2, 3, 3, 3]


def test_the_time_of_trainers_without_nodes_does_not_count() -> None:
    idle = SizeChanges().after(0.0, {"A": 0}).after(10 * 3600.0, {"A": 0})
    assert idle.within(3600.0) == pytest.approx(3.0)


def test_what_was_seen_long_ago_is_forgotten() -> None:
    restless = SizeChanges()
    for number in range(1000):
        restless = restless.after(number * 10.0, {"A": 1 + number % 2})
    calm = restless.after(10_000.0 + 10 * DAY_S, {"A": 1}).after(10_000.0 + 11 * DAY_S, {"A": 1})
    assert restless.within(3600.0) > 100
    assert calm.within(3600.0) == 1.0
