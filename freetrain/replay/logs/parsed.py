"""Runs of jobs as every job-log reader hands them on, and how columns of text are read once a text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

# Small types: a row of these columns is kept for each run of the log.
RUN_SCHEMA: Mapping[str, type[pl.DataType]] = {
    "file": pl.Int32,
    "line": pl.UInt32,
    "job": pl.String,
    "submit_s": pl.Float64,
    "start_s": pl.Float64,
    "end_s": pl.Float64,
    "limit_s": pl.Float64,
    "nodes": pl.Int32,
    "cores": pl.Int32,
    "memory_bytes": pl.Float64,
    "gpus": pl.Int32,
    "gpu_types": pl.Categorical,
    "partition": pl.Categorical,
    "node_list": pl.Categorical,
}
_ROWS_AT_ONCE = 1 << 17
TIMES = ("submit_s", "start_s", "end_s")
MAX_COUNTED = 1_000_000_000
"""A job has no more nodes or cores: a greater number slipped into the wrong column."""


def of_distinct(text: pl.Series, *meanings: pl.Expr) -> list[pl.Series]:
    """Columns that follow from one categorical column without gaps; each text that differs is understood once."""
    texts, place = distinct_texts(text)
    columns = texts.to_frame().select(meanings).get_columns()
    if len(texts) == 1:  # as of a column that the log lacks
        return [column.new_from_index(0, len(text)) for column in columns]
    return [column.gather(place) for column in columns]


def distinct_texts(column: pl.Series) -> tuple[pl.Series, NDArray[np.uint32]]:
    """The texts of a categorical column that differ, in no order, and the place of each row's among them.

    Of a column without rows it is the empty text.
    """
    if column.is_empty():
        # Polars panics at some expressions of strings where there are none.
        return pl.Series(column.name, [""]), np.zeros(0, np.uint32)
    code = column.to_physical().to_numpy()
    if code.min() == code.max():
        return column.head(1).cast(pl.String), np.zeros(len(code), np.uint32)
    row = np.full(int(code.max()) + 1, -1)
    row[code] = np.arange(len(code))
    found = np.flatnonzero(row >= 0)
    place = np.empty(len(row), np.uint32)
    place[found] = np.arange(len(found), dtype=np.uint32)
    return column.gather(row[found]).cast(pl.String), place[code]


@dataclass(frozen=True, slots=True)
class MachineSize:
    """What an SWF header says about the machine."""

    nodes: int
    cores_per_node: int


@dataclass(frozen=True, slots=True)
class ParsedFile:
    """One job log.

    Attributes:
        runs: a row per run of a job, columns as in ``RUN_SCHEMA``, some in each frame; ``take_runs`` takes them
            out. ``end_s`` is inf for one that has not ended,
            ``limit_s`` for one without a time limit, or of which none is known; ``submit_s``, ``nodes``,
            ``cores``, ``memory_bytes`` and ``gpus`` are null and ``node_list`` and ``gpu_types`` (joined by
            commas) are empty where the log does not say. What a run has is meant, on all its nodes together.
        unused: what ``seen`` shows of sound rows that are no runs, as of jobs that never started: they too tell
            what time the log covers. Times are null where a row has none.
        other_lists: node lists of jobs that were left out by choice: their nodes belong to the machine, too.
    """

    runs: list[pl.DataFrame]
    unused: pl.DataFrame
    size: MachineSize | None = None
    notes: tuple[str, ...] = ()
    clusters: tuple[str, ...] = ()
    other_lists: tuple[str, ...] = ()


def as_runs(rows: pl.DataFrame) -> pl.DataFrame:
    """The columns of ``RUN_SCHEMA`` alone: they are all that is kept of a log's rows.

    Each is in one chunk: where those of columns lie otherwise, polars copies all of them before it does anything.
    """
    return rows.select(pl.col(name).cast(kind) for name, kind in RUN_SCHEMA.items()).rechunk()


def take_runs(files: Sequence[ParsedFile]) -> pl.DataFrame:
    """The runs of all files, out of which they are taken."""
    frames = [frame for file in files for frame in file.runs]
    for file in files:
        file.runs.clear()
    return pl.concat(frames)


def filtered(alone: list[pl.DataFrame], keep: NDArray[np.bool_]) -> pl.DataFrame:
    """The rows of a frame that are kept; it is taken out of ``alone``, so that nobody else has it."""
    rows = alone.pop()
    if keep.all():
        return rows
    # Some rows at a time are copied and let go of: otherwise all would be there twice for a moment.
    some = list(rows.iter_slices(_ROWS_AT_ONCE))
    del rows
    for number, begin in enumerate(range(0, len(keep), _ROWS_AT_ONCE)):
        some[number] = some[number].filter(pl.Series(keep[begin : begin + _ROWS_AT_ONCE]))
    return pl.concat(some)


def seen(rows: pl.DataFrame) -> pl.DataFrame:
    """What rows tell of the time that a log covers: where they stand, the job, and ``TIMES``."""
    return rows.select("file", pl.col("line").cast(RUN_SCHEMA["line"]), "job", *TIMES)


def without_repeats(runs: pl.DataFrame) -> pl.DataFrame:
    """Each run once: dumps that overlap in time repeat rows, and one that ran then may have ended since."""
    # Equal rows have equal hashes; to look for those first takes a fifth of the memory.
    hashes = np.sort(runs.select("job", "start_s").hash_rows().to_numpy())
    if (hashes[1:] != hashes[:-1]).all() or not runs.select("job", "start_s").is_duplicated().any():
        return runs
    # Sorted by end, the first of equal rows is kept: a run that has ended since is not one without an end.
    key = ["job", "start_s", "nodes", "node_list"]
    return runs.sort("end_s", maintain_order=True).unique(key, keep="first", maintain_order=True)
