"""Delimited text as rows: where lines lie, the fields of sound ones, and what can be mended of the others.

sacct escapes nothing. A newline in a job's name or comment cuts its row in two; a pipe adds a field. Such lines
have the wrong number of separators: too few, and the row goes on in the lines below; too many, and some free-
text column owns the surplus. Where both come together the number may be right by chance; the fields are not
then.
"""

from __future__ import annotations

import csv
import re
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise

import numpy as np
import polars as pl
from numpy.typing import NDArray

_NEWLINE = 10
_BYTES_AT_ONCE = 1 << 20
"""Bytes looked through at once: what stays in the processor's cache takes half the time."""
_UNIT_SEPARATOR = "\x1f"
_HEAD_BYTES, _MAX_LINES_LOOKED_AT = 1 << 16, 20
_OF_SPREADSHEETS = (",", ";", "\t")
# Bounds for logs that are broken throughout: mending must not take longer than reading.
_MAX_LINES_PER_ROW = 2000
_MAX_ENDS_TRIED = 5
_MAX_SURPLUS_SHARED = 40
_Checks = Sequence[tuple[int, re.Pattern[str]]]
"""Position and shape of columns whose content tells whether a row was split rightly."""
_Way = tuple[tuple[int, ...], Sequence[_Checks]]


@dataclass(frozen=True, slots=True)
class Lines:
    """The lines of one file, numbered from 0.

    Attributes:
        end: offset of each line's end, its newline left out.
        separators: separators in each line.
    """

    data: bytes
    separator: str
    start: NDArray[np.int64]
    end: NDArray[np.int64]
    separators: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.start)

    def text(self, line: int) -> str:
        """One line's text; bytes that are no UTF-8 are replaced."""
        return self.data[self.start[line] : self.end[line]].decode(errors="replace")


def one_byte_separated(data: bytes, separator: str) -> tuple[bytes, str]:
    """The text with one byte between its fields, and that byte; lines stay where they are.

    Separators of several bytes are replaced, and so are those of spreadsheets, which put fields into quotes.
    """
    # What sacct prints has quotes of its own in free text: only where each line begins with one they are a form.
    first_lines = data[:_HEAD_BYTES].split(b"\n", _MAX_LINES_LOOKED_AT)[:_MAX_LINES_LOOKED_AT]
    quoted = b'"' in data and (
        separator in _OF_SPREADSHEETS or all(line.startswith(b'"') for line in first_lines if line.strip())
    )
    if len(separator.encode()) == 1 and not quoted:
        return data, separator
    data = data.replace(_UNIT_SEPARATOR.encode(), b" ")
    if not quoted:
        return data.replace(separator.encode(), _UNIT_SEPARATOR.encode()), _UNIT_SEPARATOR
    lines = data.decode(errors="replace").split("\n")
    return "\n".join(_unquoted(line, separator) for line in lines).encode(errors="replace"), _UNIT_SEPARATOR


def _unquoted(line: str, separator: str) -> str:
    if '"' not in line:
        return line.replace(separator, _UNIT_SEPARATOR)
    try:
        return _UNIT_SEPARATOR.join(next(csv.reader([line], delimiter=separator)))
    except (csv.Error, StopIteration):
        return line.replace(separator, _UNIT_SEPARATOR)


def split_lines(data: bytes, separator: str) -> Lines:
    """Find the lines of a text and count their separators."""
    characters = np.frombuffer(data, np.uint8)
    # Of each line, where it ends, and the separators up to there.
    ends, upto, before = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)], 0
    for begin in range(0, len(data), _BYTES_AT_ONCE):
        some = characters[begin : begin + _BYTES_AT_ONCE]
        marks = np.flatnonzero((some == _NEWLINE) | (some == ord(separator)))
        newlines = np.flatnonzero(some[marks] == _NEWLINE)
        ends.append(begin + marks[newlines])
        upto.append(before + newlines - np.arange(len(newlines)))
        before += len(marks) - len(newlines)
    if data and not data.endswith(b"\n"):
        ends.append(np.array([len(data)]))
        upto.append(np.array([before]))
    end = np.concatenate(ends)
    start = np.append(0, end[:-1] + 1)[: len(end)]
    separators = np.concatenate(upto)
    separators[1:] -= separators[:-1].copy()
    return Lines(data, separator, start, end, separators)


def read_fields(
    lines: Lines,
    good: NDArray[np.int64],
    columns: Mapping[str, int],
    lines_before: int = 0,
    repeated: Collection[str] = (),
) -> pl.DataFrame:
    """The wanted fields of some lines, as text, with the column ``line`` (numbered from 1).

    The lines ascend and have equally many separators. Columns whose texts are ``repeated`` are categorical.
    """
    if not len(good):
        return text_frame([], [], columns, lines_before, repeated)
    width = int(lines.separators[good[0]]) + 1
    kinds = dict.fromkeys(range(width), pl.String) | {
        columns[name]: pl.Categorical for name in columns if name in repeated
    }
    # A schema of our own: releases of polars count columns without header from 0 or from 1.
    frame = pl.read_csv(
        _joined(lines, good),
        has_header=False,
        separator=lines.separator,
        quote_char=None,
        schema={f"column_{position}": kind for position, kind in kinds.items()},
        columns=[f"column_{position}" for position in sorted(set(columns.values()))],
    )
    return frame.select(
        pl.Series("line", good + lines_before + 1, dtype=pl.Int64),
        *(pl.col(f"column_{position}").fill_null("").alias(name) for name, position in columns.items()),
    )


def text_frame(
    line: list[int],
    fields: list[list[str]],
    columns: Mapping[str, int],
    lines_before: int = 0,
    repeated: Collection[str] = (),
) -> pl.DataFrame:
    """The frame of ``read_fields``, made of rows that are split already."""
    data: dict[str, list[int] | list[str]] = {"line": [lines_before + number + 1 for number in line]}
    for name, position in columns.items():
        data[name] = [row[position] for row in fields]
    kinds = {name: pl.Categorical if name in repeated else pl.String for name in columns}
    return pl.DataFrame(data, schema={"line": pl.Int64, **kinds})


def _joined(lines: Lines, good: NDArray[np.int64]) -> bytes:
    """The text of the given lines alone; neighbours are copied in one piece."""
    breaks = np.flatnonzero(np.diff(good) > 1)
    first = good[np.concatenate([[0], breaks + 1])]
    last = good[np.concatenate([breaks, [len(good) - 1]])]
    if len(first) == 1 and lines.start[first[0]] == 0 and lines.end[last[0]] >= len(lines.data) - 1:
        return lines.data
    view = memoryview(lines.data)
    runs = zip(lines.start[first].tolist(), lines.end[last].tolist(), strict=True)
    return b"\n".join(view[start:end] for start, end in runs)


@dataclass(frozen=True, slots=True)
class RowLayout:
    """Layout of a sound row of the file.

    Attributes:
        trailing: whether each row ends with a separator (``sacct -p``).
        free: positions of columns known for free text.
        ways: columns that may own the surplus together, likeliest first, as ``way_to_share`` makes them.
        first_checks: checks of columns before any free text: no newline can have come between them.
        hangs_below: the last column holds free text, so text after a newline in it looks like a line of its own.
    """

    width: int
    trailing: bool
    free: tuple[int, ...]
    ways: Sequence[_Way]
    first_checks: _Checks
    hangs_below: bool

    @property
    def separators(self) -> int:
        """Separators in a sound row."""
        return self.width - 1 + int(self.trailing)

    def begins(self, fields: list[str]) -> bool | None:
        """Whether a line with these fields begins as rows do; None where the first columns cannot tell."""
        if not self.first_checks:
            return None
        whole = [check for check in self.first_checks if check[0] < len(fields) - 1]
        return bool(whole) and _fit_all(fields, whole)


def _fit_all(fields: list[str], checks: _Checks, shift: int = 0) -> bool:
    """Whether the fields look as they should, where each stands so far behind its column."""
    return all(shape.fullmatch(fields[position + shift].strip()) for position, shape in checks)


@dataclass(frozen=True, slots=True)
class MendedRows:
    """Rows from lines with a wrong number of separators: those that were mended, and those that were lost.

    Attributes:
        line: first line of each mended row, numbered from 0.
        lost: (line, reason) of each row that could not be mended.
    """

    line: list[int] = field(default_factory=list)
    fields: list[list[str]] = field(default_factory=list)
    lost: list[tuple[int, str]] = field(default_factory=list)


def mend(lines: Lines, broken: NDArray[np.int64], layout: RowLayout) -> MendedRows:
    """Mend what can be mended of the broken lines (ascending), by their separators or by their fields."""
    mended = MendedRows()
    runs = _BrokenLines(lines, broken, layout.separators)
    at = 0
    while at < len(broken):
        line, separators = int(broken[at]), int(lines.separators[broken[at]])
        blank = separators == 0 and not lines.text(line).strip()
        found = None if blank else _mend_at(runs, at, layout)
        if found:
            mended.line.append(line)
            mended.fields.append(found[0])
        elif not blank and not (layout.hangs_below and separators == 0):
            found_fields = separators + 1 - int(layout.trailing)
            mended.lost.append((line, f"has {found_fields} fields where the header has {layout.width}"))
        at += found[1] if found else 1
    return mended


class _BrokenLines:
    """Broken lines, with what is needed to join neighbours without looking at each of them again."""

    def __init__(self, lines: Lines, broken: NDArray[np.int64], expected: int) -> None:
        self.lines, self.broken, self.expected = lines, broken, expected
        counts = lines.separators[broken]
        self.total = np.concatenate([[0], np.cumsum(counts)])
        # One with separators enough is here because its fields are not what they should be.
        short = counts <= expected
        # A run ends where the next line is sound, or broken by too many separators.
        goes_on = short[1:] & short[:-1] & (np.diff(broken) == 1)
        ends = np.append(np.flatnonzero(~goes_on) + 1, len(broken))
        self.run_end = ends[np.searchsorted(ends, np.arange(len(broken)), "right")]

    def joined(self, at: int, begins: Callable[[list[str]], bool | None]) -> Iterator[list[str]]:
        """Lines that together have separators enough, from this one on, shortest first."""
        enough = int(np.searchsorted(self.total, self.total[at] + self.expected))
        last = min(int(self.run_end[at]), enough + _MAX_ENDS_TRIED, at + _MAX_LINES_PER_ROW)
        texts = [self.lines.text(int(self.broken[at]))]
        if enough > last or (enough > at + 1 and begins(texts[0].split(self.lines.separator)) is False):
            return
        for end in range(at + 1, last + 1):
            if end >= enough:
                yield texts
            following = self.lines.text(int(self.broken[end])) if end < last else ""
            if begins(following.split(self.lines.separator)):
                return
            texts.append(following)


def _mend_at(runs: _BrokenLines, at: int, layout: RowLayout) -> tuple[list[str], int] | None:
    """A row's fields, the surplus given to free-text columns, and its lines; None if no way makes sense."""
    separator = runs.lines.separator
    for texts in runs.joined(at, layout.begins):
        fields = "\n".join(texts).split(separator)
        surplus = len(fields) - 1 - layout.separators
        for free, between in layout.ways:
            shares = _share(fields, surplus, between)
            if shares is not None:
                for column, share in zip(free, shares, strict=True):
                    fields[column : column + share + 1] = [separator.join(fields[column : column + share + 1])]
                return fields, len(texts)
    return None


def way_to_share(free: tuple[int, ...], checks: _Checks) -> _Way:
    """Columns that may own the surplus, and the checks before each of them and behind the last."""
    bounds = (-1, *free, sys.maxsize)
    return free, [[check for check in checks if low < check[0] < high] for low, high in pairwise(bounds)]


def _share(fields: list[str], surplus: int, between: Sequence[_Checks]) -> tuple[int, ...] | None:
    """Number of surplus separators of each free column, such that all checked columns fit; None: no way does."""

    # A share shifts the columns behind it: from left to right, given up as soon as one before the next free column
    # does not fit.
    # Without a cache the ways to share would be tried again for each beginning, exponentially many.
    @cache
    def place(number: int, shift: int) -> tuple[int, ...] | None:
        """Shares of the free columns from this one on, where those before it own so many."""
        if not _fit_all(fields, between[number], shift):
            return None
        left = surplus - shift
        if number == len(between) - 1:
            return None if left else ()
        is_last = number == len(between) - 2
        for share in (left,) if is_last else range(min(left, _MAX_SURPLUS_SHARED) + 1):
            if (rest := place(number + 1, shift + share)) is not None:
                return (share, *rest)
        return None

    return place(0, 0)
