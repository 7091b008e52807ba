"""Marks of a time axis: round times, written as ISO dates and hours."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from math import ceil

_DAY_S = 86_400
_CLOCK_STEPS_S = (
    *(1, 2, 5, 10, 15, 30),
    *(60 * minutes for minutes in (1, 2, 5, 10, 15, 30)),
    *(3_600 * hours for hours in (1, 2, 3, 6, 12)),
)
_DAYS = (1, 2, 3, 4, 5, 7, 10, 14)
_MONTHS = (1, 2, 3, 6, 12, 24, 48, 96, 192, 384, 768, 1536)
_MIN_MARKS = 2


@dataclass(frozen=True, slots=True)
class TimeAxis:
    """Marks of a time axis with their labels; the caption has what the labels leave out."""

    at_s: tuple[float, ...]
    labels: tuple[str, ...]
    caption: str


def time_axis(from_s: float, until_s: float, most: int) -> TimeAxis:
    """Round times within a window: at most ``most``, or some more where else there would be fewer than two."""
    finer: tuple[float, ...] = ()
    marks: tuple[float, ...] = ()
    for marks in _candidates(from_s, until_s, most):
        if len(marks) <= most:
            break
        finer = marks
    if len(marks) < _MIN_MARKS <= len(finer) <= 2 * most:
        marks = finer
    dated = any(at % _DAY_S == 0 for at in marks)
    caption = "UTC" if dated else f"{_utc(from_s):%Y-%m-%d}, UTC"
    clock = "%H:%M:%S" if any(at % 60 for at in marks) else "%H:%M"
    labels = tuple(_utc(at).strftime(clock if at % _DAY_S else "%Y-%m-%d") for at in marks)
    return TimeAxis(marks, labels, caption)


def _candidates(from_s: float, until_s: float, most: int) -> Iterator[tuple[float, ...]]:
    """Marks ever further apart; days begin with the window's first midnight, months with a first."""
    for step_s in _CLOCK_STEPS_S:
        if (until_s - from_s) / step_s <= 2 * most + 1:
            first, last = ceil(from_s / step_s), int(until_s // step_s)
            yield tuple(float(number * step_s) for number in range(first, last + 1))
    midnight_s = ceil(from_s / _DAY_S) * _DAY_S
    for days in _DAYS:
        if (until_s - from_s) / (days * _DAY_S) <= 2 * most + 1:
            yield tuple(float(at) for at in range(midnight_s, int(until_s) + 1, days * _DAY_S))
    for months in _MONTHS:
        yield tuple(_firsts(from_s, until_s, months))


def _firsts(from_s: float, until_s: float, months: int) -> Iterator[float]:
    """First days of months, every so many months, within the window, UTC epoch seconds."""
    begin = _utc(from_s)
    number = begin.year * 12 + begin.month - 1
    number -= number % months
    while (year := number // 12) < 9999:
        at_s = datetime(max(year, 1), number % 12 + 1, 1, tzinfo=UTC).timestamp()
        if at_s > until_s:
            return
        if at_s >= from_s:
            yield at_s
        number += months


def _utc(at_s: float) -> datetime:
    return datetime.fromtimestamp(at_s, UTC)
