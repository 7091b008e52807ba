"""What the rows of `sacct -P` mean."""

from __future__ import annotations

import polars as pl

from freetrain.replay.logs.parsed import RUN_SCHEMA, TIMES, ParsedFile
from freetrain.replay.logs.row_checks import check_rows, sound_rows
from freetrain.replay.logs.sacct import read_sacct_text
from freetrain.replay.logs.tally import RowTally
from freetrain.replay.logs.times import MISSING_WORDS, parse_times

_STILL_ON_NODES = ("RUNNING", "SUSPENDED", "STOPPED")
_ELAPSED = r"^(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+)(?:\.\d+)?$"
_TEXT_COLUMNS = (
    "job", "submit", "start", "end", "elapsed", "limit", "state", "partition", "nodes", "cores", "node_list",
)  # fmt: skip


def read_sacct(
    data: bytes, name: str, file: int, columns: tuple[str, ...], timezone: str, tally: RowTally
) -> ParsedFile:
    """Read one sacct file.

    Args:
        data: its text.
        name: its name in messages.
        file: its number among the files read.
        columns: its header, where it has none of its own.
        timezone: zone of its times.
        tally: counts its rows.
    """
    text = read_sacct_text(data, name, columns)
    tally.read += len(text.frame) + len(text.mended.lost) + text.headers
    tally.ignore("repeated header", text.headers)
    tally.reject((file, line + 1, reason) for line, reason in text.mended.lost)
    absent = [column for column in _TEXT_COLUMNS if column not in text.frame.columns]
    rows = text.frame.with_columns(
        pl.lit(file, pl.Int32).alias("file"), *(pl.lit("").alias(column) for column in absent)
    )
    step = pl.col("job").str.contains(".", literal=True)
    whole = rows.filter(~step)
    tally.ignore("job step", len(rows) - len(whole))
    checked = _checked(_typed(whole, timezone))
    seen = checked.filter(pl.col("bad").is_null()).select(TIMES)
    return ParsedFile(sound_rows(checked, tally).select(*RUN_SCHEMA), seen)


def _typed(rows: pl.DataFrame, timezone: str) -> pl.DataFrame:
    """Times, numbers and states from their texts; what cannot be read is NaN (times) or null beside its text."""
    words = rows.with_columns(
        pl.col("state").str.to_uppercase().str.extract(r"^\s*([A-Z_]+)").fill_null("").alias("word"),
        pl.col("partition").str.strip_chars().str.split(",").list.first().fill_null(""),
        _blank_if_missing("node_list"),
        _blank_if_missing("nodes"),
        _blank_if_missing("cores"),
        _blank_if_missing("elapsed"),
        pl.col("node_list").str.contains("(?i)none assigned").alias("unassigned"),
    )
    times = words.with_columns(
        parse_times(rows["submit"], timezone).alias("submit_s"),
        parse_times(rows["start"], timezone).alias("start_s"),
        parse_times(rows["end"], timezone).alias("end_s"),
        parse_times(rows["end"], timezone, later=True).alias("later_end_s"),
        _number("nodes").alias("node_count"),
        _number("cores").alias("core_count"),
        _duration_s("elapsed").alias("elapsed_s"),
        _limit_s().alias("limit_s"),
    )
    never = pl.col("unassigned") | (pl.col("word") == "PENDING")
    times = times.with_columns(pl.when(never).then(None).otherwise(pl.col("start_s")).alias("start_s"))
    return times.with_columns(_end_s().alias("end_s"))


def _end_s() -> pl.Expr:
    """When a run ended: inf for one that is still on its nodes, or of which nothing else is known."""
    end, start = pl.col("end_s"), pl.col("start_s")
    # Clocks put back show an hour twice: an end before its start was in the second.
    settled = pl.when((end < start) & (pl.col("later_end_s") >= start)).then(pl.col("later_end_s")).otherwise(end)
    running = pl.col("word").is_in(_STILL_ON_NODES) & ~end.is_nan().fill_null(False)
    started_only = pl.coalesce(start + pl.col("elapsed_s"), pl.when(start.is_not_null()).then(float("inf")))
    return pl.when(running & start.is_not_null()).then(float("inf")).otherwise(pl.coalesce(settled, started_only))


def _checked(rows: pl.DataFrame) -> pl.DataFrame:
    start, end = pl.col("start_s"), pl.col("end_s")
    checked = check_rows(
        rows,
        ignored=[(start.is_null(), "never started"), ((end == start) & end.is_finite(), "ended when it started")],
        bad=[
            (~pl.col("job").str.contains(r"^\s*\d"), pl.format("JobID '{}' is not a job id", _short("job"))),
            *((pl.col(f"{name}_s").is_nan(), _no_time(name)) for name in ("submit", "start", "end")),
            (end < start, pl.format("End {} is before Start {}", _short("end"), _short("start"))),
            (_unread("nodes", "node_count"), pl.format("node count '{}' is not a number", _short("nodes"))),
            (_unread("cores", "core_count"), pl.format("core count '{}' is not a number", _short("cores"))),
        ],
    )
    return checked.drop("nodes", "cores").rename({"node_count": "nodes", "core_count": "cores"})


def _no_time(name: str) -> pl.Expr:
    return pl.format(name.capitalize() + " '{}' is not a time", _short(name))


def _unread(text: str, number: str) -> pl.Expr:
    return (pl.col(text) != "") & pl.col(number).is_null()


def _short(column: str) -> pl.Expr:
    return pl.col(column).str.head(40)


def _blank_if_missing(column: str) -> pl.Expr:
    text = pl.col(column).str.strip_chars()
    return pl.when(text.str.to_lowercase().is_in(MISSING_WORDS)).then(pl.lit("")).otherwise(text).alias(column)


def _number(column: str) -> pl.Expr:
    """A count, also as Slurm shortens it without --noconvert: 2K for 2048."""
    text = pl.col(column)
    parts = text.str.extract(r"^(\d+(?:\.\d+)?)[KM]?$").cast(pl.Float64, strict=False)
    factor = pl.when(text.str.ends_with("K")).then(1024).when(text.str.ends_with("M")).then(1024**2).otherwise(1)
    return (parts * factor).round().cast(pl.Int64, strict=False)


def _limit_s() -> pl.Expr:
    """Timelimit as minutes (TimelimitRaw) or as [[DD-]HH:]MM:SS; inf where there is none, or none is known."""
    minutes = pl.col("limit").cast(pl.Float64, strict=False)
    return pl.coalesce(60 * minutes, _duration_s("limit")).fill_null(float("inf"))


def _duration_s(column: str) -> pl.Expr:
    """Seconds, or [[DD-]HH:]MM:SS; null if absent."""
    text = pl.col(column)
    days, hours, minutes, seconds = (
        text.str.extract(_ELAPSED, group).cast(pl.Float64, strict=False) for group in range(1, 5)
    )
    clock = days.fill_null(0) * 86400 + hours.fill_null(0) * 3600 + minutes * 60 + seconds
    return pl.coalesce(text.cast(pl.Float64, strict=False), clock)
