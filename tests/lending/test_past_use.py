from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freetrain.lending.sharing.claimants import LEAST_TILT, PastUse, faded_hours, tilts

DAY_S = 86400.0


def test_hours_fade_to_half_in_a_half_life() -> None:
    recent = faded_hours(0.0, 3600.0, 3600.0, 7 * DAY_S)
    assert recent == pytest.approx(1.0, rel=0.01)
    assert faded_hours(0.0, 3600.0, 3600.0 + 7 * DAY_S, 7 * DAY_S) == pytest.approx(recent / 2)


def test_counted_in_two_steps_it_is_the_same() -> None:
    whole = faded_hours(0.0, 5 * DAY_S, 6 * DAY_S, DAY_S)
    first = faded_hours(0.0, 2 * DAY_S, 2 * DAY_S, DAY_S) * 0.5**4
    assert first + faded_hours(2 * DAY_S, 5 * DAY_S, 6 * DAY_S, DAY_S) == pytest.approx(whole)


def test_little_use_makes_no_difference_and_much_use_halves_a_weight() -> None:
    assert tilts({"a": 0.5, "b": 0.0}, 16, 7 * DAY_S) == {"a": 1.0, "b": 1.0}
    assert tilts({"a": 500.0, "b": 0.0}, 16, 7 * DAY_S) == {"a": 0.5, "b": 1.0}
    assert tilts({"a": 500.0, "b": 450.0}, 16, 7 * DAY_S) == {"a": 0.875, "b": 1.0}
    assert tilts({}, 16, DAY_S) == {}


@given(st.dictionaries(st.text(max_size=3), st.floats(0, 1e9), min_size=1, max_size=9))
def test_nobodys_share_is_below_half_of_an_equal_one(hours: dict[str, float]) -> None:
    weights = tilts(hours, 100, DAY_S)
    assert all(LEAST_TILT <= weight <= 1.0 for weight in weights.values())
    assert max(weights.values()) == 1.0


def test_seen_from_instant_to_instant_past_use_is_the_same_as_counted_at_once() -> None:
    use = PastUse(DAY_S, 0.0)
    assert use.after(0.0, {"a": 9}) == {"a": 0.0}
    use.after(3600.0, {"a": 2, "b": 1})
    found = use.after(3 * 3600.0, {"b": 1})
    assert found["a"] == pytest.approx(2 * faded_hours(0.0, 3600.0, 3 * 3600.0, DAY_S))
    assert found["b"] == pytest.approx(faded_hours(0.0, 3 * 3600.0, 3 * 3600.0, DAY_S))
