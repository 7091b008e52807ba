"""Counting what becomes of every row: used, ignored for a reason, or rejected as bad."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from freetrain.errors import InputError, explained
from freetrain.replay.logs.model import RejectedRow, RowCount
from freetrain.replay.logs.rows import Lines, read_fields
from freetrain.replay.logs.times import form_hint

SHOWN_REJECTS = 20
_MANY = 0.05
_TOO_MANY = 0.5
_NO_TIME = re.compile(r"(?:Submit|Start|End) '(.*)' is not a time")
_ESCAPES = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"})
Reasons = Sequence[tuple[pl.Expr, str | pl.Expr]]


@dataclass(slots=True)
class RowTally:
    """Rows counted so far.

    Attributes:
        file_names: the files' names for messages; rows name them by position.
        bad: (file, line, reason) of every rejected row.
    """

    file_names: tuple[str, ...]
    read: int = 0
    ignored: Counter[str] = field(default_factory=Counter)
    bad: list[tuple[int, int, str]] = field(default_factory=list)

    def ignore(self, reason: str, rows: int) -> None:
        """Count rows that say nothing about busy nodes."""
        if rows:
            self.ignored[reason] += rows

    def reject(self, rows: Iterable[tuple[int, int, str]]) -> None:
        """Count bad rows, each as (file, line, reason)."""
        self.bad.extend(rows)

    def stop_if_bad(self) -> None:
        """Raise an InputError that names the first bad row, if there is one (``--strict``)."""
        if not self.bad:
            return
        first = self._named(min(self.bad))
        raise InputError(
            f"{first.file}, line {first.line}: {first.reason}.",
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
        first = self._named(min(self.bad))
        raise InputError(
            f"{_rows(len(self.bad))} cannot be used, {100 * self.rejected_share:.0f} % of those that count; the "
            f"first is in {first.file}, line {first.line}: {first.reason}.",
            self.hint()
            or "Look whether the columns are right; --rejects FILE writes down what is wrong with each row.",
        )

    def warnings(self) -> list[str]:
        """Says so if so many rows are bad that the figures suffer."""
        if self.rejected_share <= _MANY:
            return []
        first = self._named(min(self.bad))
        return [
            f"{_rows(len(self.bad))} could not be used, {100 * self.rejected_share:.0f} % of those that count: "
            f"nodes look idle where their jobs ran. The first is in {first.file}, line {first.line}: "
            f"{first.reason}."
        ]

    def hint(self) -> str:
        """What to do about times of a form that cannot be read; empty where there are none."""
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

    def write_rejects(self, path: Path, text_of: Callable[[int, int], str]) -> None:
        r"""Write every rejected row as TSV: file, line, reason, text; tabs and newlines as ``\t``, ``\n``."""
        hint = "Give --rejects a file in a directory that can be written to."
        with (
            explained(f"The rejected rows cannot be written to {path}", hint),
            path.open("w", encoding="utf-8", newline="\n") as output,
        ):
            output.write("file\tline\treason\ttext\n")
            for file, line, reason in sorted(self.bad):
                cells = (self.file_names[file], str(line), reason, text_of(file, line))
                output.write("\t".join(cell.translate(_ESCAPES) for cell in cells) + "\n")

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
