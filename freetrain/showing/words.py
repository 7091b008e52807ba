"""Numbers, times, shares, names and other people's texts as a reader expects them. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from datetime import UTC, datetime
from functools import lru_cache
from math import inf, isfinite
from typing import NamedTuple

NOTHING = "–"
_DIGITS = re.compile(r"([0-9]+)")
_SPACE = "\N{NO-BREAK SPACE}"
LARGE = ((1e12, "trillion"), (1e9, "billion"), (1e6, "million"))
_LENGTHS_S = (
    (172_800, 86_400, "day", "d"),
    (5_400, 3_600, "hour", "h"),
    (100, 60, "minute", "min"),
    (-inf, 1, "second", "s"),
)


class FigureLine(NamedTuple):
    """A figure in words: its name, its value, and what that means or rests on."""

    name: str
    value: str
    meaning: str = ""


def number(value: float) -> str:
    """A number with thousands separators; digits after the point only where it is small."""
    digits = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2
    return _without_zeros(f"{value:,.{digits}f}")


def amount(value: float | None, of: float | None = None) -> str:
    """A number beside others of its kind, of which ``of`` is the largest: whole if that is 100 or more."""
    if value is None:
        return NOTHING
    digits = 0 if abs(value if of is None else of) >= 100 else 1
    nothing = 0 < abs(value) < 0.5 * 10**-digits
    return f"under {'1' if digits == 0 else '0.1'}" if nothing else f"{value:,.{digits}f}"


def count(value: float, one: str, many: str = "") -> str:
    """A number with its noun, singular or plural."""
    shown = number(value)
    return f"{shown}{_SPACE}{one if shown == '1' else many or one + 's'}"


def large(value: float) -> str:
    """A large number with three digits and a word: 130 billion."""
    for unit, word in LARGE:
        if abs(value) >= unit * 0.9995:
            scaled = abs(value / unit)
            digits = 0 if scaled >= 99.95 else 1 if scaled >= 9.995 else 2
            return f"{value / unit:,.{digits}f}{_SPACE}{word}"
    return f"{value:,.0f}"


def share(value: float | None) -> str:
    """A share in percent with one digit after the point, so that shares side by side are rounded alike.

    All is 100 % and nothing 0 %; what is nearly all or nearly nothing is not rounded to that.
    """
    if value is None:
        return NOTHING
    percent = 100 * value
    if abs(percent - 100) < 1e-4:
        percent = 100.0
    if 0 < percent < 0.1:
        return f"under 0.1{_SPACE}%"
    if percent in (0.0, 100.0):
        return f"{percent:.0f}{_SPACE}%"
    shown = min(percent, 99.9) if percent < 100 else percent
    return f"{shown:,.1f}{_SPACE}%"


def duration(seconds: float) -> str:
    """A length of time in the unit that suits it: 14 days, 6.5 hours, 10 minutes, 45 seconds."""
    shown, noun, _ = _in_units(seconds)
    return f"{shown}{_SPACE}{noun if shown == '1' else noun + 's'}"


def brief_duration(seconds: float) -> str:
    """A length of time for tables: 14 d, 6.5 h, 10 min, 45 s; a dash for none."""
    shown, _, symbol = _in_units(seconds)
    return f"{shown}{_SPACE}{symbol}" if seconds else NOTHING


def milliseconds(seconds: float) -> str:
    """A short time, with two digits or all before the point: 0.43 ms, 29 ms, 1,020 ms."""
    value = 1e3 * seconds
    return f"{value:,.0f} ms" if value >= 100 else f"{value:.2g} ms"


def moment(epoch_s: float | None) -> str:
    """A time in UTC to the minute."""
    return NOTHING if epoch_s is None else f"{datetime.fromtimestamp(epoch_s, UTC):%Y-%m-%d %H:%M}"


def show_value(value: object) -> str:
    """A value of any kind, numbers with four digits or to the unit."""
    match value:
        case None:
            return NOTHING
        case bool():
            return "yes" if value else "no"
        case int():
            return f"{value:,}"
        case float():
            return f"{value:,.0f}" if abs(value) >= 1000 and isfinite(value) else f"{value:.4g}"
        case str():
            return value
        case _:
            return json.dumps(value, ensure_ascii=False, default=str)


def or_nothing(value: float | None, form: str) -> str:
    """A number by a format such as ``{:.1f} s``; a dash for none."""
    return NOTHING if value is None else form.format(value)


def show_time(epoch_s: float | None) -> str:
    """A time in UTC, to the second."""
    return NOTHING if epoch_s is None else f"{datetime.fromtimestamp(epoch_s, UTC):%Y-%m-%d %H:%M:%SZ}"


def show_day(epoch_s: float) -> str:
    """The day of a time in UTC."""
    return f"{datetime.fromtimestamp(epoch_s, UTC):%Y-%m-%d}"


def printable(text: str) -> str:
    """The text in one line, without what would steer a terminal: comments and reasons are anybody's."""
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else " " if letter.isspace() else "?" for letter in text)


def natural_order(names: Iterable[str]) -> list[str]:
    """Names sorted as people count: c2 before c10."""
    return sorted(names, key=_natural_key)


@lru_cache(maxsize=1 << 16)
def _natural_key(name: str) -> tuple[tuple[int, str], ...]:
    # Every second part is a number; the shorter one is smaller, and of equally long ones the first by text.
    parts = _DIGITS.split(name)
    numbers = [part.lstrip("0") for part in parts[1::2]]
    keys = [(-1, part) for part in parts]
    keys[1::2] = [(len(digits), digits) for digits in numbers]
    return tuple(keys)


def _in_units(seconds: float) -> tuple[str, str, str]:
    _, unit_s, noun, symbol = next(unit for unit in _LENGTHS_S if seconds >= unit[0])
    value = max(seconds, 0.0) / unit_s
    digits = 0 if value >= 9.95 else 1 if value >= 1 else 2
    return _without_zeros(f"{value:,.{digits}f}"), noun, symbol


def _without_zeros(shown: str) -> str:
    return shown.rstrip("0").rstrip(".") if "." in shown else shown
