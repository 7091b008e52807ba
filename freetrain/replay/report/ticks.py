"""Marks of a time axis: round times, written as ISO dates and hours."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from math import ceil

_DAY_S = 86_400
_STEPS_S = (
    *(1, 2, 5, 10, 15, 30),
    *(60 * minutes for minutes in (1, 2, 5, 10, 15, 30)),
    *(3_600 * hours for hours in (1, 2, 3, 6, 12)),
    *(_DAY_S * days for days in (1, 2, 4, 7, 14, 28, 91, 182)),
)


@dataclass(frozen=True, slots=True)
class TimeAxis:
    """Where a time axis has marks and what stands there.

    Attributes:
        at_s: the marks.
        labels: what stands at them.
        caption: what the labels leave unsaid.
    """

    at_s: tuple[float, ...]
    labels: tuple[str, ...]
    caption: str


def time_axis(from_s: float, until_s: float, most: int) -> TimeAxis:
    """At most some ``most`` round times within a window."""
    span_s = until_s - from_s
    yearly_s = 364 * _DAY_S * ceil(span_s / (364 * _DAY_S * most))
    step_s = next((step_s for step_s in _STEPS_S if span_s / step_s <= most), yearly_s)
    first, last = ceil(from_s / step_s), int(until_s // step_s)
    at_s = tuple(float(number * step_s) for number in range(first, last + 1))
    dated = any(at % _DAY_S == 0 for at in at_s)
    caption = "UTC" if dated else f"{_utc(from_s):%Y-%m-%d}, UTC"
    return TimeAxis(at_s, tuple(_label(at, step_s) for at in at_s), caption)


def _label(at_s: float, step_s: int) -> str:
    if at_s % _DAY_S == 0:
        return f"{_utc(at_s):%Y-%m-%d}"
    return f"{_utc(at_s):%H:%M:%S}" if step_s < 60 else f"{_utc(at_s):%H:%M}"


def _utc(at_s: float) -> datetime:
    return datetime.fromtimestamp(at_s, UTC)
