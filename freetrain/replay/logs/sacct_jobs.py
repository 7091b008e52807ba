"""What the rows of `sacct -P` mean."""

from __future__ import annotations

import polars as pl

from freetrain.errors import InputError
from freetrain.replay.logs.held import add_held
from freetrain.replay.logs.model import ReadOptions
from freetrain.replay.logs.parsed import MOST_COUNTED, RUN_SCHEMA, TIMES, ParsedFile
from freetrain.replay.logs.row_checks import check_rows, sound_rows
from freetrain.replay.logs.sacct import read_sacct_text
from freetrain.replay.logs.sacct_times import add_times, time_notes
from freetrain.replay.logs.tally import RowTally
from freetrain.replay.logs.times import MISSING_WORDS

_TEXT_COLUMNS = (
    "job", "submit", "start", "end", "elapsed", "suspended", "limit", "state", "partition", "account", "cluster",
    "nodes", "asked_nodes", "cores", "tres", "node_list",
)  # fmt: skip
_FOR_NOTES = ("end", "suspended", "lasted_s", "shards", "cluster")
_NOT_THE_SITE_S = "of an ignored partition or account"


def read_sacct(data: bytes, name: str, file: int, options: ReadOptions, tally: RowTally) -> ParsedFile:
    """Read one sacct file.

    Args:
        data: its text.
        name: its name in messages.
        file: its number among the files read.
        options: its columns, its zone, and whose jobs to read.
        tally: counts its rows.
    """
    rows = _whole_jobs(_rows(data, name, file, options, tally), tally)
    if options.cluster is not None:
        rows = _of_cluster(rows, options.cluster, name, tally)
    never_named = _never_named(rows, options)
    # The text of all columns is as large as the file: it goes as soon as what it means is known.
    rows = _checked(_typed(rows, options), options)
    checked = rows.select(*RUN_SCHEMA, *_FOR_NOTES, "ignored", "bad")
    del rows
    seen = checked.filter(pl.col("bad").is_null()).select("job", *TIMES)
    others = checked.filter(pl.col("ignored") == _NOT_THE_SITE_S)["node_list"].unique().sort()
    runs = sound_rows(checked, tally)
    return ParsedFile(
        runs.select(*RUN_SCHEMA),
        seen,
        notes=(*time_notes(runs, name), *never_named, *_shards(runs)),
        clusters=tuple(name for name in runs["cluster"].unique().sort() if name),
        other_lists=tuple(text for text in others if text),
    )


def _rows(data: bytes, name: str, file: int, options: ReadOptions, tally: RowTally) -> pl.DataFrame:
    parts, banner = read_sacct_text(data, name, options.columns, options.delimiter)
    for part in parts:
        tally.read += len(part.frame) + len(part.lost) + part.headers
        tally.ignore("repeated header", part.headers)
        tally.reject((file, line, reason) for line, reason in part.lost)
    # Of files that were joined, each but the first begins with a header.
    tally.read += banner + max(len(parts) - 1, 0)
    tally.ignore("before the header", banner)
    tally.ignore("repeated header", max(len(parts) - 1, 0))
    frame = pl.concat((part.frame for part in parts), how="diagonal")
    given = [pl.col(column).fill_null("") for column in frame.columns if column != "line"]
    absent = [pl.lit("").alias(column) for column in _TEXT_COLUMNS if column not in frame.columns]
    return frame.with_columns(pl.lit(file, pl.Int32).alias("file"), *given, *absent)


def _whole_jobs(rows: pl.DataFrame, tally: RowTally) -> pl.DataFrame:
    whole = rows.filter(~pl.col("job").str.contains(".", literal=True))
    tally.ignore("job step", len(rows) - len(whole))
    return whole


def _of_cluster(rows: pl.DataFrame, cluster: str, name: str, tally: RowTally) -> pl.DataFrame:
    named = rows["cluster"].str.strip_chars()
    found = [found for found in named.unique().sort() if found]
    if cluster not in found:
        raise InputError(
            f"{name} holds no job of the cluster {cluster!r}.",
            f"Give --cluster one of {', '.join(found)}."
            if found
            else "It has no column Cluster: make it with -o Cluster,JobID,…, or leave --cluster out.",
        )
    kept = rows.filter(named == cluster)
    tally.ignore("of another cluster", len(rows) - len(kept))
    return kept


def _never_named(rows: pl.DataFrame, options: ReadOptions) -> list[str]:
    """Says so where there is nothing to ignore: a name may be misspelt."""
    asked = (("partition", options.ignore_partitions), ("account", options.ignore_accounts))
    return [
        f"No job names the {column} {name!r} (--ignore-{column})."
        for column, names in asked
        for name in names
        if not rows[column].str.strip_chars().is_in([name]).any()
    ]


def _shards(runs: pl.DataFrame) -> list[str]:
    if not runs["shards"].any():
        return []
    return ["Jobs held shards of GPUs (gres/shard), which are not counted: GPUs shared so look idle."]


def _typed(rows: pl.DataFrame, options: ReadOptions) -> pl.DataFrame:
    """Times, numbers and states from their texts; what cannot be read is NaN (times) or null beside its text."""
    missing = ("node_list", "nodes", "asked_nodes", "cores", "elapsed", "suspended")
    words = rows.with_columns(
        pl.col("state").str.to_uppercase().str.extract(r"^\s*([A-Z_]+)").fill_null("").alias("word"),
        pl.col("partition").str.strip_chars().str.split(",").list.first().fill_null(""),
        pl.col("account", "cluster").str.strip_chars(),
        pl.col("node_list").str.contains("(?i)none assigned").alias("unassigned"),
        *(_blank_if_missing(column) for column in missing),
    )
    counted = words.with_columns(
        _number(pl.col("nodes")).alias("node_count"),
        _number(pl.col("cores")).alias("core_count"),
        _number(pl.col("asked_nodes")).alias("asked_count"),
    )
    # What was asked for, and a list of resources, tell how many nodes a job had only where no list names them.
    nameless = pl.when(pl.col("node_list") == "")
    counted = counted.with_columns(
        pl.coalesce("node_count", nameless.then(_of_tres("node")), nameless.then("asked_count")).alias(
            "node_count"
        ),
        pl.coalesce("core_count", _of_tres("cpu")).alias("core_count"),
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
        ],
        bad=[
            (~pl.col("job").str.contains(r"^\s*\d"), pl.format("JobID '{}' is not a job id", _short("job"))),
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


def _number(text: pl.Expr) -> pl.Expr:
    """A count, also as Slurm shortens it without --noconvert: 2K for 2048."""
    parts = text.str.extract(r"^(\d+(?:\.\d+)?)[KM]?$").cast(pl.Float64, strict=False)
    factor = pl.when(text.str.ends_with("K")).then(1024).when(text.str.ends_with("M")).then(1024**2).otherwise(1)
    count = (parts * factor).round()
    return pl.when(count <= MOST_COUNTED).then(count).cast(pl.Int64, strict=False)


def _of_tres(kind: str) -> pl.Expr:
    """The count of one kind in a list such as ``cpu=64,mem=1000G,node=2``."""
    return _number(pl.col("tres").str.extract(rf"(?:^|,)\s*{kind}=([^,\s]+)"))
