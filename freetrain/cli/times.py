"""Times and durations as people write them in commands, such as Slurm's commands read them.

What logs write is another matter: ``freetrain.replay.logs.times``.
"""

from __future__ import annotations

import math
import re
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from freetrain.durations import parse_duration, show_duration

_FROM_NOW = re.compile(r"now(?:(?P<sign>[-+])(?P<duration>.+))?")


if TYPE_CHECKING:
    _Seconds = click.ParamType[float]
else:
    _Seconds = click.ParamType  # not generic before click 8.2


class Duration(_Seconds):
    """An option's duration, in seconds: 30, 90s, 15m, 2h, 10:00, 1:00:00, 1-12; UNLIMITED (inf) if it may be."""

    name = "duration"

    def __init__(self, least_s: float = 0.0, endless: bool = False) -> None:
        self._least_s = least_s
        self._endless = endless

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Seconds."""
        try:
            seconds = parse_duration(str(value))
        except ValueError as error:
            self.fail(f"{error}.", param, ctx)
        if seconds < self._least_s:
            self.fail(f"{value!r} is shorter than {self._least_s:g} s.", param, ctx)
        if math.isinf(seconds) and not self._endless:
            self.fail(f"{value!r} has no end; write how long, as {show_duration(3600)} or 2h.", param, ctx)
        return seconds


def parse_time(text: str, now_s: float) -> float:
    """UTC epoch seconds of an ISO time, ``now``, ``now-2days`` or ``now+2hours``.

    Args:
        text: the time; one without its zone is this machine's.
        now_s: UTC epoch seconds.

    Raises:
        ValueError: it is none; the sentence says which forms there are.
    """
    text = text.strip()
    try:
        if match := _FROM_NOW.fullmatch(text):
            duration_s = parse_duration(match["duration"] or "0")
            time_s = now_s - duration_s if match["sign"] == "-" else now_s + duration_s
        else:
            time_s = datetime.fromisoformat(text).astimezone().timestamp()
    except (ValueError, OverflowError):
        time_s = math.nan
    if not math.isfinite(time_s):
        raise ValueError(f"{text!r} is not a time; write 2026-01-31T08:00, now-2days or now+2hours")
    return time_s


def parse_beginning(text: str, now_s: float) -> float:
    """UTC epoch seconds of a time, or of a duration before now (UNLIMITED: -inf).

    Raises:
        ValueError: it is neither.
    """
    try:
        return now_s - parse_duration(text)
    except ValueError as no_duration:
        try:
            return parse_time(text, now_s)
        except ValueError:
            what = f"{text!r} is not a duration and not a time; write 2h, 7d, now-2days or 2026-01-31T08:00"
            raise ValueError(what) from no_duration
