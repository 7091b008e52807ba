from __future__ import annotations

import math
import time
from collections.abc import Iterator

import pytest

from freetrain.cli.times import parse_beginning, parse_time

NOW_S = 1_767_225_600.0  # 2026-01-01T00:00:00Z
HOUR_S, DAY_S = 3600.0, 86400.0


@pytest.fixture(autouse=True)
def berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """This machine's zone, an hour before UTC in winter."""
    monkeypatch.setenv("TZ", "CET-1")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


TIMES = [
    ("now", 0.0),
    ("now-2days", -2 * DAY_S),
    ("now-1day", -DAY_S),
    ("now+2hours", 2 * HOUR_S),
    ("now+1hour", HOUR_S),
    ("now+30minutes", HOUR_S / 2),
    ("now+1minute", 60.0),
    ("now-90seconds", -90.0),
    ("now+1second", 1.0),
    ("now-2weeks", -14 * DAY_S),
    ("now-1week", -7 * DAY_S),
    ("now+3600", HOUR_S),
    ("now-1-12", -1.5 * DAY_S),
    ("now+0:10:00", 600.0),
    (" now-2h ", -2 * HOUR_S),
    ("2026-01-01T02:00", HOUR_S),
    ("2026-01-01", -HOUR_S),
    ("2026-01-01 01:00:30", 30.0),
    ("2026-01-01T02:00Z", 2 * HOUR_S),
    ("2026-01-01T02:00+05:00", -3 * HOUR_S),
]


@pytest.mark.parametrize(("text", "from_now_s"), TIMES)
def test_forms_of_a_time(text: str, from_now_s: float) -> None:
    assert parse_time(text, NOW_S) == NOW_S + from_now_s
    assert parse_beginning(text, NOW_S) == NOW_S + from_now_s


@pytest.mark.parametrize(
    ("text", "ago_s"), [("2h", 2 * HOUR_S), ("7d", 7 * DAY_S), ("1-12", 1.5 * DAY_S), ("unlimited", math.inf)]
)
def test_a_duration_is_so_long_ago(text: str, ago_s: float) -> None:
    assert parse_beginning(text, NOW_S) == NOW_S - ago_s


NONSENSE = [
    "",
    "soon",
    "tomorrow",
    "now-",
    "now-soon",
    "now 2h",
    "now-unlimited",
    "2026-13-01",
    "nowhere",
    "-2days",
]


@pytest.mark.parametrize("text", NONSENSE)
def test_nonsense_is_named(text: str) -> None:
    with pytest.raises(ValueError, match="is not a time; write"):
        parse_time(text, NOW_S)
    with pytest.raises(ValueError, match="is not a duration and not a time; write"):
        parse_beginning(text, NOW_S)
