"""Times as logs write them, and as a replay's window is given: in the log's zone, or in epoch seconds.

What people write in other commands (``now-2days``, this machine's zone) is read by ``freetrain.cli.options``.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, tzinfo
from functools import partial
from zoneinfo import ZoneInfo

import polars as pl

from freetrain.errors import InputError

MISSING_WORDS = ("", "unknown", "none", "n/a", "na", "nan", "null", "(null)", "invalid", "none assigned")
LATEST_S = 4_102_444_800.0
"""The year 2100: a later time is a number that slipped into the wrong column."""
_NEVER_SET_UPTO_S = 14 * 3600.0
"""Latest time that means "never set": Slurm prints the epoch; clocks are at most so far ahead of UTC."""
_EPOCH = re.compile(r"\d{1,11}(\.\d+)?")
_NAIVE = "%Y-%m-%dT%H:%M:%S"
# In a log a shorter number is not a time but a field that slipped into the wrong column.
_EPOCH_IN_LOG = r"^(0|\d{9,11}(\.\d+)?)$"
# What SLURM_TIME_FORMAT makes of times: "relative", and formats that strftime reads.
_RELATIVE = re.compile(
    r"(yesterday|ystday|today|tomorr?ow|tomorr|mon|tue|wed|thu?r?|fri|sat|sun)?[a-z]*\s*\d{1,2}:\d\d(:\d\d)?"
    r"|\d{1,2} [a-z]{3,9}( \d{4}| \d{1,2}:\d\d)?",
    re.IGNORECASE,
)
_IN_UTC = re.compile(r"\s*\.?(UTC|GMT)$")
"""Suffix that ``SLURM_TIME_FORMAT='%F %T.%Z'`` adds where clocks show UTC."""
_WITH_ZONE = re.compile(r"[\d-]+[T ][\d:]+\s*\.?[A-Z]{3,5}")
_SLASHED = re.compile(r"\d{1,4}/\d{1,2}(/\d{1,4})?([ T-]\d{1,2}:\d\d(:\d\d)?)?")
_UNREADABLE = (
    (_RELATIVE, "is a time as SLURM_TIME_FORMAT=relative prints it, which depends on the day"),
    (_WITH_ZONE, "names a time zone in letters, which may mean several"),
    (_SLASHED, "does not say which number is the day and which the month"),
)


def parse_log_time(text: str, timezone: str = "UTC") -> float:
    """Epoch seconds of a time: ISO with or without offset, a date alone, or epoch seconds.

    A time that the zone's clocks skip counts as if they had not been put forward yet; of one that they show
    twice, the first is meant.

    Raises:
        InputError: if the text is not a time or the zone is unknown.
    """
    seconds = _seconds(text.strip(), find_zone(timezone), later=False)
    if seconds is None or seconds > LATEST_S:
        raise InputError(
            f"{text.strip()!r} is not a time.",
            "Write it as 2024-03-31, 2024-03-31T02:30:00, with +02:00, or as epoch seconds.",
        )
    return seconds


def find_zone(timezone: str) -> tzinfo:
    """The zone of that name; InputError if there is none."""
    if timezone.upper() == "UTC":
        return UTC
    try:
        return ZoneInfo(timezone)
    except (KeyError, ValueError, OSError):
        raise InputError(
            f"There is no time zone {timezone!r}.", "Give a zoneinfo name such as UTC or Europe/Berlin."
        ) from None


def parse_times(text: pl.Series, timezone: str, later: bool = False) -> pl.Series:
    """Epoch seconds of many times: null where the log says that there is none, NaN where it is not a time.

    ``later``: of a time that clocks show twice, the second is meant.
    """
    zone = find_zone(timezone)
    naive = partial(_naive_times, timezone="UTC" if zone is UTC else timezone, later=later)
    seconds = naive(text)
    # Nearly all are of this form. Other forms, and blanks around it, are looked for in what it leaves open.
    for read in (naive, _times_with_offset, _epochs, partial(_odd_times, zone=zone, later=later)):
        left = seconds.is_null().arg_true()
        if len(left):
            seconds = seconds.scatter(left, read(text.gather(left).str.strip_chars()))
    sane = pl.when(seconds > LATEST_S).then(float("nan")).when(seconds > _NEVER_SET_UPTO_S).then(seconds)
    return pl.select(sane).to_series()


def form_hint(text: str) -> str:
    """Advice about times of a form that cannot be read; empty where the form is not a known one."""
    why = next((why for form, why in _UNREADABLE if form.fullmatch(text.strip())), "")
    return f"{text!r} {why}: run sacct again with SLURM_TIME_FORMAT=standard." if why else ""


def iso(time_s: float) -> str:
    """A time for people: ISO in UTC, to the second."""
    return datetime.fromtimestamp(round(time_s), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _naive_times(text: pl.Series, timezone: str, later: bool) -> pl.Series:
    """Seconds of times without offset; null where it is none, or one that the zone's clocks skip."""
    try:
        # Hardly any time repeats: to look for it among those that are known would take longer than to read it.
        local = text.str.to_datetime(_NAIVE, strict=False, time_unit="ms", cache=False).dt.replace_time_zone(
            timezone, ambiguous="latest" if later else "earliest", non_existent="null"
        )
    except pl.exceptions.PolarsError:
        raise InputError(
            f"The time zone {timezone!r} cannot be used.", "Give a zoneinfo name such as UTC or Europe/Berlin."
        ) from None
    return _epoch_s(local)


def _times_with_offset(text: pl.Series) -> pl.Series:
    return _epoch_s(text.str.to_datetime(_NAIVE + "%z", strict=False, time_unit="ms", time_zone="UTC"))


def _epochs(text: pl.Series) -> pl.Series:
    digits = text.str.contains(_EPOCH_IN_LOG)
    return pl.select(pl.when(digits).then(text)).to_series().cast(pl.Float64, strict=False)


def _epoch_s(times: pl.Series) -> pl.Series:
    return times.dt.epoch("ms").cast(pl.Float64) / 1000


def _odd_times(text: pl.Series, zone: tzinfo, later: bool) -> pl.Series:
    """Times that no vectorised form reads: missing (null), skipped by the clocks, or no time at all (NaN)."""
    distinct = text.unique()
    meaning = [None if word.lower() in MISSING_WORDS else _parse_or_nan(word, zone, later) for word in distinct]
    return text.replace_strict(distinct, pl.Series(meaning, dtype=pl.Float64), return_dtype=pl.Float64)


def _parse_or_nan(text: str, zone: tzinfo, later: bool) -> float:
    seconds = None if _EPOCH.fullmatch(text) else _seconds(text.strip(), zone, later)
    return float("nan") if seconds is None or seconds > LATEST_S else seconds


def _seconds(text: str, zone: tzinfo, later: bool) -> float | None:
    if _EPOCH.fullmatch(text):
        return float(text)
    try:
        time = datetime.fromisoformat(_IN_UTC.sub("+00:00", text))
        if time.tzinfo is None:
            time = time.replace(tzinfo=zone, fold=int(later))
        return time.timestamp()
    except (ValueError, OverflowError):
        return None
