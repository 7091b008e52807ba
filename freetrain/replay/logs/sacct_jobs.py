"""The jobs of `sacct -P`: from the fields of its rows, resources and times, to runs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC
from itertools import chain

import numpy as np
import polars as pl

from freetrain.errors import InputError
from freetrain.replay.logs.model import ReadOptions
from freetrain.replay.logs.parsed import (
    MAX_COUNTED,
    RUN_SCHEMA,
    ParsedFile,
    RowTally,
    as_runs,
    distinct_texts,
    of_distinct,
    seen,
    sort_out,
)
from freetrain.replay.logs.sacct_text import REPEATED, ROLES, read_sacct_text
from freetrain.replay.logs.times import LATEST_S, MISSING_WORDS, find_zone, parse_times

_MIB = 2.0**20
_UNITS = {"K": _MIB / 1024, "M": _MIB, "G": _MIB * 1024, "T": _MIB * 1024**2, "P": _MIB * 1024**3}
_MEMORY = r"(?:^|,)\s*mem=([\d.]+)([KMGTP]?)"
_GPUS = r"gres/gpu[:=][^,\s]*"
_SHARD_NAME = "gres/shard"
_MPS_COUNT = r"gres/mps(?::[^=,\s]+)?=(\d+)"
_MPS_OF_A_GPU = 100
"""Units of gres/mps that are a GPU, as Slurm counts them unless gres.conf says otherwise."""
_ONE_KIND = re.compile(r"gres/gpu(?::([^=]+))?=(\d+)")
_STILL_ON_NODES = ("RUNNING", "SUSPENDED", "STOPPED")
_CLOCK = r"^(?:(\d+)(?:-| days? ))?(?:(\d+):)?(\d+):(\d+)(?:\.\d+)?$"
_TOLERANCE_S = 60.0
"""Tolerance in seconds: Start, End and Elapsed are taken at slightly different instants."""
_HOUR_S = 3600.0
_TIMES = ("submit", "start", "end")
_MIN_BATCH_ROWS = 200_000
_LOOKED_AT = ("cluster", "shards", "mps", "lasted_s", "end", "says_suspended")
"""Columns of runs that are looked at and not kept."""
_JOB_ID = r"^\s*(\d|[A-Za-z][\w-]*\d[\w-]*\s*$)"
"""Shape of a job's id, as Slurm has it; those of other systems begin with letters."""
_SHARED_GPUS = {
    "shards": "Jobs held shards of GPUs (gres/shard), which are not counted: GPUs shared so look idle.",
    "mps": "Jobs held parts of GPUs (gres/mps): each hundred of them, or less, counts as a GPU that nobody else "
    "has.",
}
_NOT_THE_SITE_S = "of an ignored partition or account"


def _blank_if_missing(column: str) -> pl.Expr:
    text = pl.col(column).str.strip_chars()
    return pl.when(text.str.to_lowercase().is_in(MISSING_WORDS)).then(pl.lit("")).otherwise(text)


def _number(text: pl.Expr) -> pl.Expr:
    """A count, also as Slurm shortens it without --noconvert: 2K for 2048."""
    parts = text.str.extract(r"^(\d+(?:\.\d+)?)[KM]?$").cast(pl.Float64, strict=False)
    factor = pl.when(text.str.ends_with("K")).then(1024).when(text.str.ends_with("M")).then(1024**2).otherwise(1)
    count = (parts * factor).round()
    return pl.when(count <= MAX_COUNTED).then(count).cast(pl.Int64, strict=False)


def _read(column: str, read: Callable[[pl.Expr], pl.Expr], name: str) -> tuple[pl.Expr, pl.Expr]:
    """Columns for the value of a text, and for whether there is a text without such a value."""
    text = _blank_if_missing(column)
    return read(text).alias(name), ((text != "") & read(text).is_null()).alias(f"{column}_unread")


def _duration_s(text: pl.Expr) -> pl.Expr:
    """Seconds, or [[DD-]HH:]MM:SS; null if absent or not a duration."""
    days, hours, minutes, seconds = (
        text.str.extract(_CLOCK, group).cast(pl.Float64, strict=False) for group in range(1, 5)
    )
    clock = days.fill_null(0) * 86400 + hours.fill_null(0) * 3600 + minutes * 60 + seconds
    duration_s = pl.coalesce(text.cast(pl.Float64, strict=False), clock)
    return pl.when(duration_s.is_between(0, LATEST_S)).then(duration_s)


def _limit_s() -> pl.Expr:
    """Timelimit as minutes (TimelimitRaw) or as [[DD-]HH:]MM:SS; inf where there is none, or none is known."""
    limit_s = pl.coalesce(60 * pl.col("limit").cast(pl.Float64, strict=False), _duration_s(pl.col("limit")))
    return pl.when(~limit_s.is_nan() & (limit_s >= 0)).then(limit_s).otherwise(float("inf"))


def _of_tres(kind: str) -> pl.Expr:
    """The count of one kind in a list such as ``cpu=64,mem=1000G,node=2``."""
    return _number(pl.col("tres").str.extract(rf"(?:^|,)\s*{kind}=([^,\s]+)"))


def _gpus(entries: pl.Series) -> pl.Series:
    """Number of GPUs that lists of entries name (null: more than there are), and types, joined by commas."""
    found = []
    # Texts that differ are few: each is read once (``of_distinct``).
    for text in entries.to_list():
        kinds = {name: int(count) for name, count in _ONE_KIND.findall(text)}
        untyped = kinds.pop("", 0)
        # Slurm lists GPUs both by type and without one: they are the same. Instances of MIG are types.
        count = max(untyped, sum(kinds.values()))
        types = ",".join(sorted(name for name, its_count in kinds.items() if its_count))
        found.append({"count": count if count <= MAX_COUNTED else None, "types": types})
    return pl.Series(found, dtype=_COUNT_AND_TYPES)


_COUNT_AND_TYPES = pl.Struct({"count": pl.Int64, "types": pl.String})


def _held() -> Iterator[pl.Expr]:
    """Columns for the memory and GPUs that a job held, by its list of resources."""
    tres = pl.col("tres")
    # A list that names no GPUs is of a job that has none; where there is no list, nothing is known.
    has_list = tres.str.strip_chars() != ""
    number, unit = (tres.str.extract(_MEMORY, group) for group in (1, 2))
    gpus = tres.str.extract_all(_GPUS).list.join(",").map_batches(_gpus, return_dtype=_COUNT_AND_TYPES)
    mps = tres.str.extract(_MPS_COUNT).cast(pl.Int64, strict=False).fill_null(0)
    # Memory without a unit is in MiB.
    yield (number.cast(pl.Float64, strict=False) * unit.replace_strict(_UNITS, default=_MIB)).alias("memory_bytes")
    yield pl.when(has_list).then(gpus.struct.field("count") - -mps // _MPS_OF_A_GPU).alias("gpus")
    yield gpus.struct.field("types").cast(pl.Categorical).alias("gpu_types")
    yield tres.str.contains(_SHARD_NAME, literal=True).alias("shards")
    yield (mps > 0).alias("mps")


_STATE = pl.col("state").str.to_uppercase().str.extract(r"^\s*([A-Z_]+)").fill_null("")
_PARTITION = pl.col("partition").str.strip_chars().str.split(",").list.first().fill_null("")
_MEANINGS: Mapping[str, Sequence[pl.Expr]] = {
    "state": (_STATE.is_in(_STILL_ON_NODES).alias("runs_on"), (_STATE == "PENDING").alias("pending")),
    "partition": (_PARTITION.cast(pl.Categorical),),
    "account": (pl.col("account").str.strip_chars().cast(pl.Categorical),),
    "cluster": (pl.col("cluster").str.strip_chars().cast(pl.Categorical),),
    "node_list": (
        pl.col("node_list").str.contains("(?i)none assigned").alias("unassigned"),
        (_blank_if_missing("node_list") != "").alias("has_list"),
        _blank_if_missing("node_list").cast(pl.Categorical),
    ),
    "had_nodes": _read("had_nodes", _number, "nodes"),
    "had_cores": _read("had_cores", _number, "cores"),
    "asked_nodes": _read("asked_nodes", _number, "asked_count"),
    "tres": (_of_tres("node").alias("tres_nodes"), _of_tres("cpu").alias("tres_cores"), *_held()),
    "elapsed": _read("elapsed", _duration_s, "elapsed_s"),
    "suspended": (
        _duration_s(_blank_if_missing("suspended")).fill_null(0).alias("suspended_s"),
        (_blank_if_missing("suspended") != "").alias("says_suspended"),
    ),
    "limit": (_limit_s().alias("limit_s"),),
}
"""Column of which few texts differ → columns that follow from it."""


class TimeNotes:
    """Oddities in the times of a file's sound rows, whatever their order."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._count = {"by_an_hour": 0, "other": 0}
        self._first: dict[str, str] = {}
        self._says_more = self._any_ended = False

    def add(self, runs: pl.DataFrame) -> None:
        """Look at some more rows."""
        end_s, start_s, lasted_s = (runs[name].to_numpy() for name in ("end_s", "start_s", "lasted_s"))
        ended = np.isfinite(end_s)
        # Jobs that still run have no end: inf less inf.
        with np.errstate(invalid="ignore"):
            off_s = np.abs(end_s - start_s - lasted_s)
            by_an_hour = ended & (np.abs(off_s - _HOUR_S) <= _TOLERANCE_S)
            other = ended & (off_s > _TOLERANCE_S) & ~by_an_hour
        for kind, which in (("by_an_hour", by_an_hour), ("other", other)):
            if which.any():
                self._count[kind] += int(which.sum())
                self._first.setdefault(kind, runs["job"][int(which.argmax())])
        self._says_more |= bool((runs["end"] != "").any() or runs["says_suspended"].any())
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


def _settled_start_s() -> pl.Expr:
    """Start of a run: if clocks showed it twice, the second where only that one fits the job's end and Elapsed."""
    start, later, end = pl.col("start_s"), pl.col("later_start_s"), pl.coalesce("later_end_s", "end_s")

    def fits(begin: pl.Expr, finish: pl.Expr) -> pl.Expr:
        return ((finish - begin - pl.col("lasted_s")).abs() <= _TOLERANCE_S).fill_null(False)

    earlier_fits = fits(start, pl.col("end_s")) | fits(start, end)
    return pl.when((later > start) & ~earlier_fits & fits(later, end)).then(later).otherwise(start)


def _settled_end_s() -> pl.Expr:
    """End of a run: if clocks showed it twice, the second if the first precedes the start or fits Elapsed less."""
    end, later, start, lasted_s = (pl.col(name) for name in ("end_s", "later_end_s", "start_s", "lasted_s"))
    second = (end < start) | (((later - start - lasted_s).abs() < (end - start - lasted_s).abs()).fill_null(False))
    return pl.when(second & (later >= start)).then(later).otherwise(end)


def _end_s() -> pl.Expr:
    """End of a run: inf for one that is still on its nodes, or of which nothing else is known."""
    end, start = pl.col("end_s"), pl.col("start_s")
    running = pl.col("runs_on") & ~end.is_nan().fill_null(False)
    reckoned = start + pl.col("lasted_s")
    sane = pl.when(reckoned > LATEST_S).then(float("nan")).otherwise(reckoned)
    started_only = pl.coalesce(sane, pl.when(start.is_not_null()).then(float("inf")))
    return pl.when(running & start.is_not_null()).then(float("inf")).otherwise(pl.coalesce(end, started_only))


def read_sacct(pieces: Iterable[bytes], file: int, options: ReadOptions, tally: RowTally) -> ParsedFile:
    """Read one sacct file; each piece of its text ends at the end of a line."""
    name, notes = tally.file_names[file], TimeNotes(tally.file_names[file])
    not_the_site_s = {"partition": options.ignore_partitions, "account": options.ignore_accounts}
    seen_names = {column: set[str]() for column in ("cluster", *not_the_site_s)}
    runs, unused = [], []
    others, clusters, shared_gpus = set[str](), set[str](), dict[str, str]()
    for rows in _rows(pieces, file, options, tally):
        typed = _typed(_own_jobs(rows, options.cluster, seen_names["cluster"], tally), options)
        for column, names in not_the_site_s.items():
            if names:
                seen_names[column].update(distinct_texts(typed[column])[0])
        sound, ignored = _sorted_out(typed, options, tally)
        unused.append(seen(ignored))
        others.update(ignored.filter(ignored["ignored"] == _NOT_THE_SITE_S)["node_list"].cast(pl.String).unique())
        notes.add(sound)
        clusters.update(distinct_texts(sound["cluster"])[0])
        shared_gpus |= {kind: note for kind, note in _SHARED_GPUS.items() if sound[kind].any()}
        runs.append(as_runs(sound))
    if options.cluster is not None and options.cluster not in seen_names["cluster"]:
        raise _no_such_cluster(options.cluster, seen_names["cluster"], name)
    # Names that no job has may be misspelt.
    unused_names = (
        f"No job names the {column} {name!r} (--ignore-{column})."
        for column, names in not_the_site_s.items()
        for name in names
        if name not in seen_names[column]
    )
    tally.notes += (*notes.sentences(), *unused_names, *shared_gpus.values())
    return ParsedFile(
        runs,
        pl.concat(unused),
        clusters=tuple(sorted(clusters - {""})),
        other_lists=tuple(sorted(others - {""})),
    )


def _rows(pieces: Iterable[bytes], file: int, options: ReadOptions, tally: RowTally) -> Iterator[pl.DataFrame]:
    """The rows as text, at least _MIN_BATCH_ROWS at a time but for the last."""
    batch: list[pl.DataFrame] = []
    for as_written in read_sacct_text(pieces, file, options.columns, options.delimiter, tally):
        rows = options.trace.settle(as_written)
        absent = (
            pl.lit("", pl.Categorical if role in REPEATED else pl.String).alias(role)
            for role in ROLES
            if role not in rows.columns
        )
        rows = rows.with_columns(pl.lit(file, pl.Int32).alias("file"), *absent)
        batch.append(rows.select("line", "file", *ROLES))
        # Joined files may change their columns often, and judging a few rows takes as long as judging thousands.
        if sum(map(len, batch)) >= _MIN_BATCH_ROWS:
            yield pl.concat(batch).rechunk()
            batch = []
    if batch:
        yield pl.concat(batch).rechunk()


def _own_jobs(rows: pl.DataFrame, cluster: str | None, seen_names: set[str], tally: RowTally) -> pl.DataFrame:
    """The jobs, without their steps, of the cluster that is asked for; which clusters there are is noted."""
    jobs = rows.filter(~pl.col("job").str.contains(".", literal=True))
    tally.ignore("job step", len(rows) - len(jobs))
    if cluster is None:
        return jobs
    texts, place = distinct_texts(jobs["cluster"])
    names = texts.str.strip_chars()
    seen_names.update(names)
    kept = jobs.filter((names == cluster).to_numpy()[place])
    tally.ignore("of another cluster", len(jobs) - len(kept))
    return kept


def _no_such_cluster(cluster: str, seen_names: set[str], file: str) -> InputError:
    found = ", ".join(sorted(seen_names - {""}))
    return InputError(
        f"{file} holds no job of the cluster {cluster!r}.",
        f"Give --cluster one of {found}."
        if found
        else "It has no column Cluster: make it with -o Cluster,JobID,…, or leave --cluster out.",
    )


def _typed(rows: pl.DataFrame, options: ReadOptions) -> pl.DataFrame:
    """Times, numbers and states from their texts; what cannot be read is NaN (times) or null beside its text.

    Times are null where there is none, inf for an end to come.
    """
    typed = rows.with_columns(
        chain.from_iterable(of_distinct(rows[role], *meanings) for role, meanings in _MEANINGS.items())
    )
    # What was asked for, and a list of resources, tell how many nodes a job had only where no list names them.
    nameless = pl.when(~pl.col("has_list"))
    typed = typed.with_columns(
        *(parse_times(rows[name], options.timezone).alias(f"{name}_s") for name in _TIMES),
        # Elapsed does not count the time for which a job was suspended.
        (pl.col("elapsed_s") + pl.col("suspended_s")).alias("lasted_s"),
        pl.coalesce("nodes", nameless.then("tres_nodes"), nameless.then("asked_count")).alias("nodes"),
        pl.coalesce("cores", "tres_cores").alias("cores"),
    )
    # Only where clocks are put back does a time have two meanings.
    if find_zone(options.timezone) is not UTC:
        typed = typed.with_columns(
            parse_times(rows[name], options.timezone, later=True).alias(f"later_{name}_s")
            for name in ("start", "end")
        )
        typed = typed.with_columns(_settled_start_s().alias("start_s"))
        typed = typed.with_columns(_settled_end_s().alias("end_s"))
    started_s = pl.when(~(pl.col("unassigned") | pl.col("pending"))).then(pl.col("start_s"))
    return typed.with_columns(started_s.alias("start_s")).with_columns(_end_s().alias("end_s"))


def _sorted_out(rows: pl.DataFrame, options: ReadOptions, tally: RowTally) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The runs among typed rows, and the rows that say nothing about busy nodes; bad ones are counted."""
    start, end = pl.col("start_s"), pl.col("end_s")
    not_the_site_s = _is_among("partition", options.ignore_partitions) | _is_among(
        "account", options.ignore_accounts
    )
    return sort_out(
        rows,
        tally,
        [*RUN_SCHEMA, *_LOOKED_AT],
        ignored=[
            (start.is_null(), "never started"),
            ((end == start) & end.is_finite(), "ended when it started"),
            (not_the_site_s, _NOT_THE_SITE_S),
            ((pl.col("nodes") == 0) & ~pl.col("has_list"), "had no nodes"),
        ],
        bad=[
            (~pl.col("job").str.contains(_JOB_ID), _is_not("JobID", "job", "a job id")),
            *((pl.col(f"{name}_s").is_nan(), _is_not(name.capitalize(), name, "a time")) for name in _TIMES),
            (
                end.is_infinite() & ~pl.col("runs_on") & pl.col("elapsed_unread"),
                _is_not("Elapsed", "elapsed", "a duration"),
            ),
            (end < start, pl.format("End {} is before Start {}", _short("end"), _short("start"))),
            *(
                (pl.col(f"had_{what}_unread") & pl.col(what).is_null(), _is_not(name, f"had_{what}", "a number"))
                for what, name in (("nodes", "node count"), ("cores", "core count"))
            ),
        ],
    )


def _is_among(column: str, names: Sequence[str]) -> pl.Expr:
    return pl.col(column).cast(pl.String).is_in(names) if names else pl.lit(False)


def _is_not(name: str, column: str, kind: str) -> pl.Expr:
    return pl.format(f"{name} '{{}}' is not {kind}", _short(column))


def _short(column: str) -> pl.Expr:
    return pl.col(column).cast(pl.String).str.head(40)
