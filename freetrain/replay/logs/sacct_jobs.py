"""The jobs of `sacct -P`: what the fields of its rows mean, from resources and times to runs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import UTC
from itertools import chain

import polars as pl

from freetrain.errors import InputError
from freetrain.replay.logs.model import ReadOptions
from freetrain.replay.logs.parsed import (
    MAX_COUNTED,
    RUN_SCHEMA,
    ParsedFile,
    as_runs,
    gathered_by,
    of_distinct,
    seen,
)
from freetrain.replay.logs.sacct_text import read_sacct_text
from freetrain.replay.logs.tally import RowTally, check_rows, sound_rows
from freetrain.replay.logs.times import LATEST_S, MISSING_WORDS, find_zone, parse_times

_MIB = 2.0**20
_UNITS = {"K": _MIB / 1024, "M": _MIB, "G": _MIB * 1024, "T": _MIB * 1024**2, "P": _MIB * 1024**3}
_MEMORY = r"(?:^|,)\s*mem=([\d.]+)([KMGTP]?)"
_GPUS = r"gres/gpu[:=][^,\s]*"
_SHARD_NAME = "gres/shard"
_MPS_COUNT = r"gres/mps(?::[^=,\s]+)?=(\d+)"
_MPS_OF_A_GPU = 100
"""As Slurm counts it unless gres.conf says otherwise."""
_ONE_KIND = re.compile(r"gres/gpu(?::([^=]+))?=(\d+)")
_STILL_ON_NODES = ("RUNNING", "SUSPENDED", "STOPPED")
_CLOCK = r"^(?:(\d+)(?:-| days? ))?(?:(\d+):)?(\d+):(\d+)(?:\.\d+)?$"
_TOLERANCE_S = 60.0
"""Start, End and Elapsed are taken at slightly different instants."""
_HOUR_S = 3600.0
_MIN_BATCH_ROWS = 50_000
_TEXT_COLUMNS = (
    "job", "submit", "start", "end", "elapsed", "suspended", "limit", "state", "partition", "account", "cluster",
    "nodes", "asked_nodes", "cores", "tres", "node_list",
)  # fmt: skip
_READ_AND_DROPPED = ("cluster", "shards", "mps", "lasted_s", "says_end", "says_suspended")
"""What is looked at of a run and not kept."""
_JOB_ID = r"^\s*(\d|[A-Za-z][\w-]*\d[\w-]*\s*$)"
"""As Slurm has it; other systems begin with letters."""
_SHARDS = "Jobs held shards of GPUs (gres/shard), which are not counted: GPUs shared so look idle."
_MPS = "Jobs held parts of GPUs (gres/mps): each hundred of them, or less, counts as a GPU that nobody else has."
_NOT_THE_SITE_S = "of an ignored partition or account"


def add_held(rows: pl.DataFrame) -> pl.DataFrame:
    """Add ``memory_bytes``, ``gpus``, ``gpu_types``, ``shards`` and ``mps`` to rows with the column ``tres``.

    A list that names no GPUs is of a job that has none; where there is no list, nothing is known. Memory without a
    unit is in MiB. GPUs that are listed both by type and without one are the same; those of a type are counted as
    Slurm names it, instances of MIG too.
    """
    distinct = rows["tres"].unique()
    return rows.with_columns(gathered_by(rows["tres"], distinct, _held(distinct.to_frame())))


def _held(lists: pl.DataFrame) -> pl.DataFrame:
    has_list = pl.col("tres").str.strip_chars() != ""
    number, unit = (pl.col("tres").str.extract(_MEMORY, group) for group in (1, 2))
    held = lists.select(
        (number.cast(pl.Float64, strict=False) * unit.replace_strict(_UNITS, default=_MIB)).alias("memory_bytes"),
        pl.when(has_list).then(pl.col("tres").str.contains(_SHARD_NAME, literal=True)).alias("shards"),
        pl.when(has_list).then(pl.col("tres").str.extract(_MPS_COUNT).cast(pl.Int64, strict=False)).alias("mps"),
        pl.when(has_list).then(pl.col("tres").str.extract_all(_GPUS).list.join(",")).alias("gpu_text"),
    )
    known = {text: _gpus(text) for text in held["gpu_text"].drop_nulls().unique().to_list()}
    counts = {text: count for text, (count, _) in known.items() if count <= MAX_COUNTED}
    types = {text: names for text, (_, names) in known.items()}
    return (
        held.with_columns(
            _looked_up("gpu_text", counts, pl.Int64).alias("whole_gpus"),
            _looked_up("gpu_text", types, pl.String).fill_null("").alias("gpu_types"),
        )
        .with_columns(
            (pl.col("whole_gpus") + -(-pl.col("mps").fill_null(0) // _MPS_OF_A_GPU)).alias("gpus"),
            (pl.col("mps") > 0).alias("mps"),
        )
        .drop("gpu_text", "whole_gpus")
    )


def _looked_up(column: str, values: dict[str, int] | dict[str, str], kind: type[pl.DataType]) -> pl.Expr:
    return pl.col(column).replace_strict(values, default=None, return_dtype=kind)


def _gpus(text: str) -> tuple[int, str]:
    """How many GPUs these entries are, and their types, joined by commas."""
    kinds = {name: int(count) for name, count in _ONE_KIND.findall(text)}
    untyped = kinds.pop("", 0)
    return max(untyped, sum(kinds.values())), ",".join(sorted(name for name, count in kinds.items() if count))


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
    """What is odd about the times of a file's sound rows, whatever their order."""

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

    def sentences(self) -> Iterator[str]:
        """The oddities in sentences."""
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


def read_sacct(pieces: Iterable[bytes], name: str, file: int, options: ReadOptions, tally: RowTally) -> ParsedFile:
    """Read one sacct file.

    Args:
        pieces: its text; each piece ends at the end of a line.
        name: its name in messages.
        file: its number among the files read.
        options: its columns, its zone, and whose jobs to read.
        tally: counts its rows.
    """
    named, notes = _WantedNames(options, name), TimeNotes(name)
    runs, unused = [], []
    others, clusters, has_shards, has_mps = set[str](), set[str](), False, False
    for rows in _rows(pieces, name, file, options, tally):
        checked = _checked(_typed(named.chosen(_whole_jobs(rows, tally), tally), options), options)
        unused.append(seen(checked.filter(pl.col("ignored").is_not_null())))
        others.update(checked.filter(pl.col("ignored") == _NOT_THE_SITE_S)["node_list"].unique())
        sound = sound_rows(checked, tally)
        notes.add(sound)
        clusters.update(sound["cluster"].unique())
        has_shards |= bool(sound["shards"].any())
        has_mps |= bool(sound["mps"].any())
        runs.append(as_runs(sound))
    named.stop_if_of_no_cluster()
    return ParsedFile(
        runs,
        pl.concat(unused),
        notes=(
            *notes.sentences(),
            *named.unused_names(),
            *([_SHARDS] if has_shards else []),
            *([_MPS] if has_mps else []),
        ),
        clusters=tuple(sorted(clusters - {""})),
        other_lists=tuple(sorted(others - {""})),
    )


def _rows(
    pieces: Iterable[bytes], name: str, file: int, options: ReadOptions, tally: RowTally
) -> Iterator[pl.DataFrame]:
    """The rows as text, at least _MIN_BATCH_ROWS at a time but for the last.

    A file may change its columns often (files that were put together), and judging a few rows takes as long as
    judging thousands.
    """
    texts, banner = read_sacct_text(pieces, name, options.columns, options.delimiter)
    tally.read += banner
    tally.ignore("before the header", banner)
    batch: list[pl.DataFrame] = []
    for text in texts:
        tally.read += len(text.rows) + len(text.lost) + text.headers
        tally.ignore("repeated header", text.headers)
        tally.reject((file, line, reason) for line, reason in text.lost)
        absent = [pl.lit("").alias(column) for column in _TEXT_COLUMNS if column not in text.rows.columns]
        rows = options.trace.settle(text.rows).with_columns(
            pl.repeat(file, pl.len(), dtype=pl.Int32).alias("file"), *absent
        )
        batch.append(rows.select("line", "file", *_TEXT_COLUMNS))
        if sum(map(len, batch)) >= _MIN_BATCH_ROWS:
            yield pl.concat(batch)
            batch = []
    if batch:
        yield pl.concat(batch)


def _whole_jobs(rows: pl.DataFrame, tally: RowTally) -> pl.DataFrame:
    whole = rows.filter(~pl.col("job").str.contains(".", literal=True))
    tally.ignore("job step", len(rows) - len(whole))
    return whole


class _WantedNames:
    """Names of the cluster, partitions and accounts that are asked for, and those that rows have had so far."""

    def __init__(self, options: ReadOptions, file: str) -> None:
        self._cluster, self._file = options.cluster, file
        self._clusters: set[str] = set()
        self._ignored = [
            *(("partition", name) for name in options.ignore_partitions),
            *(("account", name) for name in options.ignore_accounts),
        ]
        self._seen: set[tuple[str, str]] = set()

    def chosen(self, rows: pl.DataFrame, tally: RowTally) -> pl.DataFrame:
        """The rows of the cluster that is asked for."""
        if self._cluster is not None:
            named = rows["cluster"].str.strip_chars()
            self._clusters.update(named.unique())
            kept = rows.filter(named == self._cluster)
            tally.ignore("of another cluster", len(rows) - len(kept))
            rows = kept
        self._seen.update(
            (column, name) for column, name in self._ignored if rows[column].str.strip_chars().is_in([name]).any()
        )
        return rows

    def stop_if_of_no_cluster(self) -> None:
        """Raise an InputError if no row was of the cluster that is asked for."""
        if self._cluster is None or self._cluster in self._clusters:
            return
        found = sorted(self._clusters - {""})
        raise InputError(
            f"{self._file} holds no job of the cluster {self._cluster!r}.",
            f"Give --cluster one of {', '.join(found)}."
            if found
            else "It has no column Cluster: make it with -o Cluster,JobID,…, or leave --cluster out.",
        )

    def unused_names(self) -> list[str]:
        """Notes on names that no job has: they may be misspelt."""
        return [
            f"No job names the {column} {name!r} (--ignore-{column})."
            for column, name in self._ignored
            if (column, name) not in self._seen
        ]


def _typed(rows: pl.DataFrame, options: ReadOptions) -> pl.DataFrame:
    """Times, numbers and states from their texts; what cannot be read is NaN (times) or null beside its text."""
    word = pl.col("state").str.to_uppercase().str.extract(r"^\s*([A-Z_]+)").fill_null("").alias("word")
    first = pl.col("partition").str.strip_chars().str.split(",").list.first().fill_null("")
    unassigned = pl.col("node_list").str.contains("(?i)none assigned").alias("unassigned")
    counts = (("nodes", "node_count"), ("cores", "core_count"), ("asked_nodes", "asked_count"))
    counted = rows.with_columns(
        *of_distinct(rows["state"], word),
        *of_distinct(rows["partition"], first),
        *of_distinct(rows["node_list"], unassigned, _blank_if_missing("node_list")),
        *chain.from_iterable(
            of_distinct(rows[text], _blank_if_missing(text), _number(_blank_if_missing(text)).alias(count))
            for text, count in counts
        ),
        *of_distinct(rows["tres"], _of_tres("node").alias("tres_nodes"), _of_tres("cpu").alias("tres_cores")),
        *of_distinct(rows["elapsed"], _blank_if_missing("elapsed")),
        *of_distinct(rows["suspended"], _blank_if_missing("suspended")),
        pl.col("account", "cluster").str.strip_chars(),
    )
    # What was asked for, and a list of resources, tell how many nodes a job had only where no list names them.
    nameless = pl.when(pl.col("node_list") == "")
    counted = counted.with_columns(
        pl.coalesce("node_count", nameless.then("tres_nodes"), nameless.then("asked_count")).alias("node_count"),
        pl.coalesce("core_count", "tres_cores").alias("core_count"),
        (pl.col("end") != "").alias("says_end"),
        (pl.col("suspended") != "").alias("says_suspended"),
    )
    return add_times(add_held(counted), options.timezone)


def _checked(rows: pl.DataFrame, options: ReadOptions) -> pl.DataFrame:
    start, end = pl.col("start_s"), pl.col("end_s")
    not_the_site_s = pl.col("partition").is_in(options.ignore_partitions) | pl.col("account").is_in(
        options.ignore_accounts
    )
    checked = check_rows(
        rows,
        ignored=[
            (start.is_null(), "never started"),
            ((end == start) & end.is_finite(), "ended when it started"),
            (not_the_site_s, _NOT_THE_SITE_S),
            ((pl.col("node_count") == 0) & (pl.col("node_list") == ""), "had no nodes"),
        ],
        bad=[
            (~pl.col("job").str.contains(_JOB_ID), pl.format("JobID '{}' is not a job id", _short("job"))),
            *((pl.col(f"{name}_s").is_nan(), _no_time(name)) for name in ("submit", "start", "end")),
            (
                end.is_infinite() & ~pl.col("runs_on") & _unread("elapsed", "elapsed_s"),
                pl.format("Elapsed '{}' is not a duration", _short("elapsed")),
            ),
            (end < start, pl.format("End {} is before Start {}", _short("end"), _short("start"))),
            (_unread("nodes", "node_count"), pl.format("node count '{}' is not a number", _short("nodes"))),
            (_unread("cores", "core_count"), pl.format("core count '{}' is not a number", _short("cores"))),
        ],
    )
    checked = checked.drop("nodes", "cores").rename({"node_count": "nodes", "core_count": "cores"})
    # Nobody looks at the other texts any more: rows are chosen sooner without them.
    return checked.select(*RUN_SCHEMA, *_READ_AND_DROPPED, "ignored", "bad")


def _no_time(name: str) -> pl.Expr:
    return pl.format(name.capitalize() + " '{}' is not a time", _short(name))


def _unread(text: str, number: str) -> pl.Expr:
    return (pl.col(text) != "") & pl.col(number).is_null()


def _short(column: str) -> pl.Expr:
    return pl.col(column).str.head(40)


def _blank_if_missing(column: str) -> pl.Expr:
    text = pl.col(column).str.strip_chars()
    return pl.when(text.str.to_lowercase().is_in(MISSING_WORDS)).then(pl.lit("")).otherwise(text).alias(column)


def _number(text: pl.Expr) -> pl.Expr:
    """A count, also as Slurm shortens it without --noconvert: 2K for 2048."""
    parts = text.str.extract(r"^(\d+(?:\.\d+)?)[KM]?$").cast(pl.Float64, strict=False)
    factor = pl.when(text.str.ends_with("K")).then(1024).when(text.str.ends_with("M")).then(1024**2).otherwise(1)
    count = (parts * factor).round()
    return pl.when(count <= MAX_COUNTED).then(count).cast(pl.Int64, strict=False)


def _of_tres(kind: str) -> pl.Expr:
    """The count of one kind in a list such as ``cpu=64,mem=1000G,node=2``."""
    return _number(pl.col("tres").str.extract(rf"(?:^|,)\s*{kind}=([^,\s]+)"))
