"""When jobs of an sacct log were submitted, started and ended."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC

import polars as pl

from freetrain.replay.logs.distinct import of_distinct
from freetrain.replay.logs.times import LATEST_S, find_zone, parse_times

_STILL_ON_NODES = ("RUNNING", "SUSPENDED", "STOPPED")
_CLOCK = r"^(?:(\d+)(?:-| days? ))?(?:(\d+):)?(\d+):(\d+)(?:\.\d+)?$"
_TOLERANCE_S = 60.0
"""Start, End and Elapsed are taken at slightly different instants."""
_HOUR_S = 3600.0


def add_times(rows: pl.DataFrame, timezone: str) -> pl.DataFrame:
    """Add ``submit_s``, ``start_s``, ``end_s``, ``limit_s`` and ``elapsed_s`` to rows of text.

    Times are null where the log says that there is none, NaN where what it says is no time. ``end_s`` is inf for a
    job that is still on its nodes. Elapsed does not count the time for which a job was suspended: that is added.
    """
    early = _clock_times(rows, timezone, later=False)
    # Only where clocks are put back does a time have two meanings.
    late = early if find_zone(timezone) is UTC else _clock_times(rows, timezone, later=True)
    timed = rows.with_columns(
        parse_times(rows["submit"], timezone).alias("submit_s"),
        *early,
        *(time.alias(f"later_{time.name}") for time in late),
        *of_distinct(rows["elapsed"], _duration_s("elapsed").alias("elapsed_s")),
        *of_distinct(rows["suspended"], _duration_s("suspended").fill_null(0).alias("suspended_s")),
        *of_distinct(rows["limit"], _limit_s().fill_null(float("inf")).alias("limit_s")),
    )
    timed = timed.with_columns(
        (pl.col("elapsed_s") + pl.col("suspended_s")).alias("lasted_s"),
        (pl.col("unassigned") | (pl.col("word") == "PENDING")).alias("never"),
        pl.col("word").is_in(_STILL_ON_NODES).alias("runs_on"),
    )
    timed = timed.with_columns(_settled_start_s().alias("start_s"))
    timed = timed.with_columns(pl.when(~pl.col("never")).then(pl.col("start_s")).alias("start_s"))
    return timed.with_columns(_end_s().alias("end_s"))


class TimeNotes:
    """What is odd about the times of a file's sound rows, whichever it is told of first.

    Args:
        name: the file's name in messages.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._count = {"by_an_hour": 0, "other": 0}
        self._first: dict[str, str] = {}
        self._says_more = self._any_ended = False

    def add(self, runs: pl.DataFrame) -> None:
        """Look at some more rows."""
        ended = runs["end_s"].is_finite().fill_null(False)
        off_s = (runs["end_s"] - runs["start_s"] - runs["lasted_s"]).abs()
        by_an_hour = ended & ((off_s - _HOUR_S).abs() <= _TOLERANCE_S).fill_null(False)
        other = ended & (off_s > _TOLERANCE_S).fill_null(False) & ~by_an_hour
        for kind, which in (("by_an_hour", by_an_hour), ("other", other)):
            if which.any():
                self._count[kind] += int(which.sum())
                self._first.setdefault(kind, runs["job"][which.arg_true()[0]])
        self._says_more |= bool(runs["says_end"].any() or runs["says_suspended"].any())
        self._any_ended |= bool(ended.any())

    def said(self) -> Iterator[str]:
        """It in sentences."""
        if self._count["by_an_hour"]:
            yield (
                f"In {self._name}, {self._count['by_an_hour']:,} jobs ran for an hour more or less than their "
                f"Start and End say (the first: {self._first['by_an_hour']}): clocks were put forward or back. "
                "Say with --timezone in which zone the times are."
            )
        if self._count["other"]:
            yield (
                f"In {self._name}, Elapsed of {self._count['other']:,} jobs does not fit their Start and End (the "
                f"first: {self._first['other']}); Start and End are believed."
            )
        if not self._says_more and self._any_ended:
            yield (
                f"{self._name} has no End: it is Start + Elapsed, too early for jobs that were suspended "
                "meanwhile."
            )


def _clock_times(rows: pl.DataFrame, timezone: str, later: bool) -> list[pl.Series]:
    return [parse_times(rows[name], timezone, later).alias(f"{name}_s") for name in ("start", "end")]


def _settled_start_s() -> pl.Expr:
    """Of a start that the clocks showed twice, the second if only then the job lasted as long as Elapsed says."""
    start, later, end = pl.col("start_s"), pl.col("later_start_s"), pl.coalesce("later_end_s", "end_s")

    def fits(begin: pl.Expr, finish: pl.Expr) -> pl.Expr:
        return ((finish - begin - pl.col("lasted_s")).abs() <= _TOLERANCE_S).fill_null(False)

    earlier_fits = fits(start, pl.col("end_s")) | fits(start, end)
    return pl.when((later > start) & ~earlier_fits & fits(later, end)).then(later).otherwise(start)


def _end_s() -> pl.Expr:
    """When a run ended: inf for one that is still on its nodes, or of which nothing else is known."""
    end, later, start = pl.col("end_s"), pl.col("later_end_s"), pl.col("start_s")
    lasted_s = pl.col("lasted_s")
    # Clocks put back show an hour twice. The second is meant if the first is before the start, or if only the
    # second fits Elapsed.
    second = (end < start) | (((later - start - lasted_s).abs() < (end - start - lasted_s).abs()).fill_null(False))
    settled = pl.when(second & (later >= start)).then(later).otherwise(end)
    running = pl.col("runs_on") & ~end.is_nan().fill_null(False)
    reckoned = start + lasted_s
    sane = pl.when(reckoned > LATEST_S).then(float("nan")).otherwise(reckoned)
    started_only = pl.coalesce(sane, pl.when(start.is_not_null()).then(float("inf")))
    return pl.when(running & start.is_not_null()).then(float("inf")).otherwise(pl.coalesce(settled, started_only))


def _limit_s() -> pl.Expr:
    """Timelimit as minutes (TimelimitRaw) or as [[DD-]HH:]MM:SS; null where there is none, or none is known."""
    minutes = pl.col("limit").cast(pl.Float64, strict=False)
    limit_s = pl.coalesce(60 * minutes, _duration_s("limit"))
    return pl.when(~limit_s.is_nan() & (limit_s >= 0)).then(limit_s)


def _duration_s(column: str) -> pl.Expr:
    """Seconds, or [[DD-]HH:]MM:SS; null if absent or no duration."""
    text = pl.col(column)
    days, hours, minutes, seconds = (
        text.str.extract(_CLOCK, group).cast(pl.Float64, strict=False) for group in range(1, 5)
    )
    clock = days.fill_null(0) * 86400 + hours.fill_null(0) * 3600 + minutes * 60 + seconds
    duration_s = pl.coalesce(text.cast(pl.Float64, strict=False), clock)
    return pl.when(duration_s.is_between(0, LATEST_S)).then(duration_s)
