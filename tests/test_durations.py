from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freetrain.durations import parse_duration, show_duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("30", 30),
        ("1.5", 1.5),
        ("90s", 90),
        ("15m", 900),
        ("15min", 900),
        ("2h", 7200),
        ("2days", 172800),
        ("1week", 604800),
        ("10:00", 600),
        ("1:00:00", 3600),
        ("1-12", 129600),
        ("1-12:30", 131400),
        ("2-00:00:01", 172801),
        ("unlimited", math.inf),
    ],
)
def test_forms(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


def test_a_bare_number_counts_what_the_caller_says() -> None:
    assert parse_duration("30", bare_unit_s=60) == 1800
    assert parse_duration("30s", bare_unit_s=60) == 30


@pytest.mark.parametrize("text", ["", "soon", "-5", "1:2:3:4", "1-", "10 minutes", "nan", "1e9"])
def test_nonsense_is_named(text: str) -> None:
    with pytest.raises(ValueError, match="is not a duration"):
        parse_duration(text)


@given(st.integers(0, 10**9))
def test_what_is_shown_is_read_again(seconds: int) -> None:
    assert parse_duration(show_duration(seconds)) == seconds
