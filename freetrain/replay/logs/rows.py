"""Delimited text as rows: where lines lie, how many separators each has, the wanted fields of the good ones."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

_NEWLINE = 10
_BYTES_AT_ONCE = 1 << 20
"""What stays in the processor's cache is looked through in half the time."""
_UNIT_SEPARATOR = "\x1f"
_HEAD_BYTES, _MOST_LINES_LOOKED_AT = 1 << 16, 20
_OF_SPREADSHEETS = (",", ";", "\t")


@dataclass(frozen=True, slots=True)
class Lines:
    """The lines of one file, numbered from 0.

    Attributes:
        data: the file's text.
        separator: what stands between fields.
        start: offset of each line, shape (lines,).
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
    quoted = b'"' in data and (separator in _OF_SPREADSHEETS or _begins_each_line(data, b'"'))
    if len(separator.encode()) == 1 and not quoted:
        return data, separator
    data = data.replace(_UNIT_SEPARATOR.encode(), b" ")
    if not quoted:
        return data.replace(separator.encode(), _UNIT_SEPARATOR.encode()), _UNIT_SEPARATOR
    lines = data.decode(errors="replace").split("\n")
    return "\n".join(_unquoted(line, separator) for line in lines).encode(errors="replace"), _UNIT_SEPARATOR


def _begins_each_line(data: bytes, mark: bytes) -> bool:
    lines = data[:_HEAD_BYTES].split(b"\n", _MOST_LINES_LOOKED_AT)[:_MOST_LINES_LOOKED_AT]
    return all(line.startswith(mark) for line in lines if line.strip())


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


def read_fields(lines: Lines, good: NDArray[np.int64], columns: Mapping[str, int]) -> pl.DataFrame:
    """The wanted fields of the given lines, as text, with the column ``line`` (numbered from 1).

    Args:
        lines: a file's lines.
        good: which of them, ascending; all have the same number of separators.
        columns: wanted fields by position.
    """
    if not len(good):
        return text_frame([], [], columns)
    width = int(lines.separators[good[0]]) + 1
    # A schema of our own: releases of polars count columns without header from 0 or from 1.
    frame = pl.read_csv(
        _joined(lines, good),
        has_header=False,
        separator=lines.separator,
        quote_char=None,
        schema={f"column_{position}": pl.String for position in range(width)},
        columns=[f"column_{position}" for position in sorted(set(columns.values()))],
        encoding="utf8-lossy",
    )
    return frame.select(
        pl.Series("line", good + 1, dtype=pl.Int64),
        *(pl.col(f"column_{position}").fill_null("").alias(name) for name, position in columns.items()),
    )


def text_frame(line: list[int], fields: list[list[str]], columns: Mapping[str, int]) -> pl.DataFrame:
    """The same frame as of ``read_fields``, from rows that are split already."""
    data: dict[str, list[int] | list[str]] = {"line": [number + 1 for number in line]}
    for name, position in columns.items():
        data[name] = [row[position] for row in fields]
    return pl.DataFrame(data, schema={"line": pl.Int64, **dict.fromkeys(columns, pl.String)})


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
