"""Parsed logs, as every reader hands them on: runs of jobs, and counts of used, ignored and bad rows."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from freetrain.errors import InputError, explained
from freetrain.replay.logs.machine import LoggedMachine
from freetrain.replay.logs.rows import Lines, read_fields
from freetrain.replay.logs.times import form_hint

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
"""Most nodes or cores of a job: a greater number slipped into the wrong column."""


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
class ParsedFile:
    """One job log.

    Attributes:
        runs: a row per run of a job, columns as in ``RUN_SCHEMA``, some in each frame; ``take_runs`` takes them
            out. ``end_s`` is inf for one that has not ended,
            ``limit_s`` for one without a time limit, or of which none is known; ``submit_s``, ``nodes``,
            ``cores``, ``memory_bytes`` and ``gpus`` are null and ``node_list`` and ``gpu_types`` (joined by
            commas) are empty where the log does not say. What a run has is meant, on all its nodes together.
        unused: columns of ``seen`` of sound rows that are no runs, as of jobs that never started: they too tell
            what time the log covers. Times are null where a row has none.
        machine: the machine as the file describes it; None: it does not.
        other_lists: node lists of jobs that were left out by choice: their nodes belong to the machine, too.
    """

    runs: list[pl.DataFrame]
    unused: pl.DataFrame
    machine: LoggedMachine | None = None
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
    """Rows of a frame that are kept; the frame is taken out of ``alone``, so that its memory can be freed."""
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
    """Columns of rows that tell which time a log covers: where they stand, the job, and ``TIMES``."""
    return rows.select("file", pl.col("line").cast(RUN_SCHEMA["line"]), "job", *TIMES)


def without_repeats(runs: pl.DataFrame) -> pl.DataFrame:
    """Runs, each once: dumps that overlap in time repeat rows, and one that ran then may have ended since."""
    # Equal rows have equal hashes; to look for those first takes a fifth of the memory.
    hashes = np.sort(runs.select("job", "start_s").hash_rows().to_numpy())
    if (hashes[1:] != hashes[:-1]).all() or not runs.select("job", "start_s").is_duplicated().any():
        return runs
    # Sorted by end, the first of equal rows is kept: a run that has ended since is not one without an end.
    key = ["job", "start_s", "nodes", "node_list"]
    return runs.sort("end_s", maintain_order=True).unique(key, keep="first", maintain_order=True)


@dataclass(frozen=True, slots=True)
class RejectedRow:
    """A row that could not be used: where it stands and what is wrong with it."""

    file: str
    line: int
    reason: str


@dataclass(frozen=True, slots=True)
class RowCount:
    """Counts of rows by what became of them: ``read == used + sum(ignored.values()) + rejected``.

    Attributes:
        read: rows of the log, headers and blank lines left out.
        ignored: rows that say nothing about busy nodes, by reason.
        first_rejects: the first bad rows by file and line, at most 20.
    """

    read: int
    used: int
    ignored: Mapping[str, int]
    rejected: int
    first_rejects: tuple[RejectedRow, ...]


SHOWN_REJECTS = 20
_MANY = 0.05
_TOO_MANY = 0.5
_NO_TIME = re.compile(r"(?:Submit|Start|End) '(.*)' is not a time")
_ESCAPES = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"})
Reasons = Sequence[tuple[pl.Expr, str | pl.Expr]]


@dataclass(slots=True)
class RowTally:
    """Rows counted so far, and the oddities of the log.

    Attributes:
        file_names: the files' names for messages; rows name them by position.
        strict: whether no bad row is put up with.
        bad: (file, line, reason) of every rejected row.
        notes: assumptions, in sentences.
        warnings: doubts about the figures, likewise.
    """

    file_names: tuple[str, ...]
    strict: bool = False
    read: int = 0
    ignored: Counter[str] = field(default_factory=Counter)
    bad: list[tuple[int, int, str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def ignore(self, reason: str, rows: int) -> None:
        """Count rows that say nothing about busy nodes."""
        if rows:
            self.ignored[reason] += rows

    def reject(self, rows: Iterable[tuple[int, int, str]]) -> None:
        """Count bad rows, each as (file, line, reason)."""
        self.bad.extend(rows)

    def stop_if_strict(self) -> None:
        """Raise an InputError that names the first bad row, if there is one and none is put up with."""
        if not (self.strict and self.bad):
            return
        raise InputError(
            f"{self._first}.",
            self.hint() or "Mend or remove the row, or read without --strict, which counts bad rows and goes on.",
        )

    @property
    def rejected_share(self) -> float:
        """Bad rows as a share of those that should have shown busy nodes."""
        counted = self.read - sum(self.ignored.values())
        return len(self.bad) / counted if counted > 0 else 0.0

    def stop_if_mostly_bad(self) -> None:
        """Raise an InputError if more than half of the rows that matter are bad: what is left is no log."""
        if self.rejected_share <= _TOO_MANY:
            return
        raise InputError(
            f"{_rows(len(self.bad))} cannot be used, {100 * self.rejected_share:.0f} % of those that count; the "
            f"first is in {self._first}.",
            self.hint()
            or "Look whether the columns are right; --rejects FILE writes down what is wrong with each row.",
        )

    def warn_if_many_bad(self) -> None:
        """Warn if so many rows are bad that the figures suffer."""
        share = self.rejected_share
        if share > _MANY:
            self.warnings.append(
                f"{_rows(len(self.bad))} could not be used, {100 * share:.0f} % of those that count: nodes look "
                f"idle where their jobs ran. The first is in {self._first}."
            )

    def hint(self) -> str:
        """Advice about times of a form that cannot be read; empty where there are none."""
        texts = (_NO_TIME.search(reason) for _, _, reason in sorted(self.bad)[:SHOWN_REJECTS])
        return next((hint for found in texts if found and (hint := form_hint(found[1]))), "")

    def count(self) -> RowCount:
        """The final count; every row that was neither ignored nor rejected was used."""
        used = self.read - sum(self.ignored.values()) - len(self.bad)
        first = tuple(self._named(row) for row in sorted(self.bad)[:SHOWN_REJECTS])
        return RowCount(self.read, used, dict(self.ignored), len(self.bad), first)

    def summary(self) -> str:
        """The count in half a sentence, for errors."""
        parts = [f"{count:,} ignored ({reason})" for reason, count in self.ignored.most_common()]
        if self.bad:
            parts.append(f"{len(self.bad):,} rejected (the first: {self._named(min(self.bad)).reason})")
        return f"{self.read:,} rows read, " + (", ".join(parts) or "none ignored or rejected")

    def write_rejects(self, path: Path, texts: Sequence[bytes]) -> None:
        r"""Write every rejected row as TSV: file, line, reason, text; tabs and newlines as ``\t``, ``\n``.

        ``texts``: those of the files.
        """
        # Line n lies between the ends n - 1 and n.
        ends = [
            np.concatenate([[-1], np.flatnonzero(np.frombuffer(text, np.uint8) == ord("\n")), [len(text)]])
            for text in texts
        ]
        hint = "Give --rejects a file in a directory that can be written to."
        with (
            explained(f"The rejected rows cannot be written to {path}", hint),
            path.open("w", encoding="utf-8", newline="\n") as output,
        ):
            output.write("file\tline\treason\ttext\n")
            for file, line, reason in sorted(self.bad):
                text = texts[file][ends[file][line - 1] + 1 : ends[file][line]].decode(errors="replace")
                cells = (self.file_names[file], str(line), reason, text)
                output.write("\t".join(cell.translate(_ESCAPES) for cell in cells) + "\n")

    @property
    def _first(self) -> str:
        first = self._named(min(self.bad))
        return f"{first.file}, line {first.line}: {first.reason}"

    def _named(self, row: tuple[int, int, str]) -> RejectedRow:
        return RejectedRow(self.file_names[row[0]], row[1], row[2])


def _rows(count: int) -> str:
    return "1 row" if count == 1 else f"{count:,} rows"


def rows_of_width(
    lines: Lines,
    body: NDArray[np.int64],
    width: int,
    whose: str,
    columns: Mapping[str, int],
    place: tuple[int, int],
    tally: RowTally,
) -> pl.DataFrame:
    """The wanted fields of those lines of a body that have as many as they should; the others are counted as bad.

    ``place``: which file it is, and how many of its lines are before these.
    """
    sound = lines.separators[body] == width - 1
    file, lines_before = place
    tally.read += len(body)
    tally.reject(
        (file, lines_before + line + 1, f"has {lines.separators[line] + 1} fields where {whose} has {width}")
        for line in body[~sound].tolist()
    )
    rows = read_fields(lines, body[sound], columns, lines_before)
    return rows.with_columns(pl.lit(file, pl.Int32).alias("file"))


def sort_out(
    rows: pl.DataFrame, tally: RowTally, keep: Sequence[str], ignored: Reasons, bad: Reasons
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Sound rows, and those that are ignored with the column ``ignored``; these and bad rows are counted.

    A row that is ignored is not looked at further: it is not bad, whatever else it holds. Of several reasons the
    first that holds is counted.
    """
    is_odd = rows.select(pl.any_horizontal(when.fill_null(False) for when, _ in (*ignored, *bad))).to_series()
    if not is_odd.any():
        return rows.select(keep), rows.clear().with_columns(pl.lit(None, pl.String).alias("ignored"))
    # Sentences are made for the few rows that need them: for all of them they would cost more than all else.
    # In one chunk: polars 2.1 panics at pl.format where a filter has left a chunk empty.
    odd = rows.filter(is_odd).rechunk()
    odd = odd.with_columns(_first_reason(ignored).alias("ignored"), _first_reason(bad).alias("bad"))
    for reason, count in odd["ignored"].drop_nulls().value_counts(sort=True).iter_rows():
        tally.ignore(reason, count)
    is_ignored = pl.col("ignored").is_not_null()
    tally.reject(odd.filter(~is_ignored).select("file", "line", "bad").iter_rows())
    return rows.select(keep).filter(~is_odd), odd.filter(is_ignored)


def _first_reason(reasons: Reasons) -> pl.Expr:
    sentences = [(when, pl.lit(why) if isinstance(why, str) else why) for when, why in reasons]
    return pl.coalesce(
        *(pl.when(when.fill_null(False)).then(why) for when, why in sentences), pl.lit(None, pl.String)
    )
