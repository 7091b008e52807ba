"""What the rows of `sacct -P` mean."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain

import polars as pl

from freetrain.errors import InputError
from freetrain.replay.logs.distinct import of_distinct
from freetrain.replay.logs.held import add_held
from freetrain.replay.logs.model import ReadOptions
from freetrain.replay.logs.parsed import MOST_COUNTED, RUN_SCHEMA, ParsedFile, as_runs, seen
from freetrain.replay.logs.row_checks import check_rows, sound_rows
from freetrain.replay.logs.sacct import read_sacct_text
from freetrain.replay.logs.sacct_times import TimeNotes, add_times
from freetrain.replay.logs.tally import RowTally
from freetrain.replay.logs.times import MISSING_WORDS

_TEXT_COLUMNS = (
    "job", "submit", "start", "end", "elapsed", "suspended", "limit", "state", "partition", "account", "cluster",
    "nodes", "asked_nodes", "cores", "tres", "node_list",
)  # fmt: skip
_SAID_BESIDE = ("cluster", "shards", "mps", "lasted_s", "says_end", "says_suspended")
"""What is looked at of a run and not kept."""
_JOB_ID = r"^\s*(\d|[A-Za-z][\w-]*\d[\w-]*\s*$)"
"""As Slurm has it; other systems begin with letters."""
_SHARDS = "Jobs held shards of GPUs (gres/shard), which are not counted: GPUs shared so look idle."
_MPS = "Jobs held parts of GPUs (gres/mps): each hundred of them, or less, counts as a GPU that nobody else has."
_NOT_THE_SITE_S = "of an ignored partition or account"


def read_sacct(pieces: Iterable[bytes], name: str, file: int, options: ReadOptions, tally: RowTally) -> ParsedFile:
    """Read one sacct file.

    Args:
        pieces: its text; each piece ends at the end of a line.
        name: its name in messages.
        file: its number among the files read.
        options: its columns, its zone, and whose jobs to read.
        tally: counts its rows.
    """
    named, notes = _Named(options, name), TimeNotes(name)
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
        notes=(*notes.said(), *named.never(), *([_SHARDS] if has_shards else []), *([_MPS] if has_mps else [])),
        clusters=tuple(sorted(clusters - {""})),
        other_lists=tuple(sorted(others - {""})),
    )


def _rows(
    pieces: Iterable[bytes], name: str, file: int, options: ReadOptions, tally: RowTally
) -> Iterator[pl.DataFrame]:
    """The rows as text, some at a time."""
    texts, banner = read_sacct_text(pieces, name, options.columns, options.delimiter)
    tally.read += banner
    tally.ignore("before the header", banner)
    for text in texts:
        tally.read += len(text.rows) + len(text.lost) + text.headers
        tally.ignore("repeated header", text.headers)
        tally.reject((file, line, reason) for line, reason in text.lost)
        absent = [pl.lit("").alias(column) for column in _TEXT_COLUMNS if column not in text.rows.columns]
        yield text.rows.with_columns(pl.repeat(file, pl.len(), dtype=pl.Int32).alias("file"), *absent)


def _whole_jobs(rows: pl.DataFrame, tally: RowTally) -> pl.DataFrame:
    whole = rows.filter(~pl.col("job").str.contains(".", literal=True))
    tally.ignore("job step", len(rows) - len(whole))
    return whole


class _Named:
    """Whose jobs are asked for, and which of these names the rows have had so far.

    Args:
        options: whose jobs to read.
        file: the file's name in messages.
    """

    def __init__(self, options: ReadOptions, file: str) -> None:
        self._cluster, self._file = options.cluster, file
        self._clusters: set[str] = set()
        self._ignored = [
            *(("partition", name) for name in options.ignore_partitions),
            *(("account", name) for name in options.ignore_accounts),
        ]
        self._seen: set[tuple[str, str]] = set()

    def chosen(self, rows: pl.DataFrame, tally: RowTally) -> pl.DataFrame:
        """Those of the cluster that is asked for."""
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

    def never(self) -> list[str]:
        """Says so where there is nothing to ignore: a name may be misspelt."""
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
    return checked.select(*RUN_SCHEMA, *_SAID_BESIDE, "ignored", "bad")


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
