"""The text of `sacct -P`: headers, rows, and free text that breaks rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np
import polars as pl
from numpy.typing import NDArray

from freetrain.errors import InputError
from freetrain.replay.logs.headers import Header, find_headers, further_headers
from freetrain.replay.logs.mend import mend
from freetrain.replay.logs.rows import Lines, one_byte_separated, read_fields, split_lines, text_frame
from freetrain.replay.logs.sacct_form import Form, form_of, form_without_header

_MOST_OPEN_BYTES = 1 << 25
"""No row is as long: what is broken for longer than that is no row that goes on."""


@dataclass(frozen=True, slots=True)
class SacctText:
    """Some rows of a file as text.

    Attributes:
        rows: columns ``line`` and those of the header that are needed, all text; mended rows come last.
        lost: (line, reason) of each broken row that could not be mended, lines numbered from 1.
        headers: header lines among them, the one left out that every file needs.
    """

    rows: pl.DataFrame
    lost: list[tuple[int, str]]
    headers: int


@dataclass(frozen=True, slots=True)
class _Section:
    """Neighbouring lines of one form: from where to where, and where the headers among them begin."""

    form: Form
    begin: int
    end: int
    headers: tuple[int, ...]


def read_sacct_text(
    pieces: Iterable[bytes], name: str, columns: tuple[str, ...], delimiter: str | None = None
) -> tuple[Iterator[SacctText], int]:
    """Split a sacct file into rows and fields, piece by piece, and count the lines before its first header.

    Args:
        pieces: the file's text; each piece ends at the end of a line.
        name: its name in messages.
        columns: its header, where it has none of its own.
        delimiter: what separates columns; None: what its header shows.
    """
    pieces = iter(pieces)
    head = next(pieces, b"")
    headers = _renamed(list(find_headers(head, delimiter)), columns, name)
    begin = headers[0].begin if headers else len(head)
    form = None
    if columns and begin:
        given = Header(0, (delimiter or "|").join(columns), delimiter or "|")
        form, begin = form_without_header(given, head[:begin], name), 0
    banner = sum(bool(line.strip()) for line in head[:begin].split(b"\n"))
    sections = _Sections(begin, form, headers, delimiter, name)
    return _texts(chain([head], pieces), sections, int(form is None)), banner


def _renamed(headers: list[Header], columns: tuple[str, ...], name: str) -> list[Header]:
    """The headers, the first with the names that the user gives where it is the file's first line.

    Raises:
        InputError: they are not as many.
    """
    if not columns or not headers or headers[0].begin:
        return headers
    own = headers[0].names
    if len(own) != len(columns):
        raise InputError(
            f"{name} has a header of {len(own)} columns, and --columns names {len(columns)}.",
            "Give a name for each column of the header, or leave --columns out.",
        )
    return [replace(headers[0], text=headers[0].separator.join(columns)), *headers[1:]]


class _Sections:
    """Cuts pieces of a file into sections, and remembers the form of the last.

    Args:
        begin: where the rows begin, or the first header.
        form: the form of the rows before any header; None: the first header comes first.
        headers: headers of the first piece.
        delimiter: what separates columns; None: what headers show.
        name: the file's name in messages.
    """

    def __init__(
        self, begin: int, form: Form | None, headers: list[Header], delimiter: str | None, name: str
    ) -> None:
        self._begin, self._form, self._delimiter, self._name = begin, form, delimiter, name
        self._first = headers[0] if headers else None
        self._headers: list[Header] | None = headers

    def of(self, data: bytes) -> list[_Section]:
        """The sections of the next piece."""
        begins, forms = [self._begin], [self._form]
        headers: list[list[int]] = [[]]
        for header in self._headers_of(data):
            form = forms[-1]
            if form is None or header.text != form.header.text:
                begins.append(header.begin)
                forms.append(form_of(header, self._name))
                headers.append([])
            headers[-1].append(header.begin)
        self._begin, self._form = 0, forms[-1]
        ends = [*begins[1:], len(data)]
        found = zip(forms, begins, ends, headers, strict=True)
        return [_Section(form, begin, end, tuple(own)) for form, begin, end, own in found if form is not None]

    def _headers_of(self, data: bytes) -> list[Header]:
        headers, self._headers = self._headers, None
        if headers is not None:
            return headers
        return list(further_headers(data, self._first, 0, self._delimiter)) if self._first else []


def _texts(pieces: Iterable[bytes], sections: _Sections, needed_headers: int) -> Iterator[SacctText]:
    open_end, lines_before = b"", 0
    for piece, is_last in _with_last(pieces):
        data = open_end + piece
        for section in sections.of(data):
            text, open_end = _text(data, section, lines_before, section.end == len(data) and not is_last)
            yield replace(text, headers=text.headers - needed_headers)
            needed_headers = 0
        lines_before += data.count(b"\n") - open_end.count(b"\n")


def _with_last(pieces: Iterable[bytes]) -> Iterator[tuple[bytes, bool]]:
    """Each piece, and whether it is the last."""
    earlier: bytes | None = None
    for piece in pieces:
        if earlier is not None:
            yield earlier, False
        earlier = piece
    if earlier is not None:
        yield earlier, True


def _text(data: bytes, section: _Section, lines_before: int, goes_on: bool) -> tuple[SacctText, bytes]:
    """The rows of a section, and the end of its text that is left for the next piece.

    Args:
        data: the piece.
        section: which part of it.
        lines_before: lines of the file before the piece.
        goes_on: the section's last row may go on in the next piece.
    """
    form, own = section.form, _slice(data, section.begin, section.end)
    text, separator = one_byte_separated(own, form.header.separator)
    lines = split_lines(text, separator)
    headers = [own.count(b"\n", 0, begin - section.begin) for begin in section.headers]
    is_sound = lines.separators == form.layout.separators
    is_sound[headers] = True
    is_sound &= ~_is_sound_by_chance(lines, is_sound, headers, form, goes_on)
    open_end = _open_end(own, is_sound) if goes_on else b""
    body = np.delete(np.arange(len(lines) - open_end.count(b"\n")), headers)
    sound, mended = body[is_sound[body]], mend(lines, body[~is_sound[body]], form.layout)
    rows = read_fields(lines, sound, form.positions)
    if mended.line:
        # A field that owns separators has them as they stood in the file.
        cells = [[cell.replace(separator, form.header.separator) for cell in fields] for fields in mended.fields]
        rows = pl.concat([rows, text_frame(mended.line, cells, form.positions)])
    first_line = lines_before + data.count(b"\n", 0, section.begin)
    lost = [(first_line + line + 1, reason) for line, reason in mended.lost]
    return SacctText(rows.with_columns(pl.col("line") + first_line), lost, len(headers)), open_end


def _is_sound_by_chance(
    lines: Lines, is_sound: NDArray[np.bool_], headers: list[int], form: Form, goes_on: bool
) -> NDArray[np.bool_]:
    """Lines with as many separators as a row, whose start is no time, where the line after them is broken.

    A newline and separators in free text have made up for each other. What follows the last line is not known
    where the text goes on.
    """
    found = np.zeros(len(is_sound), bool)
    before_broken = np.flatnonzero(is_sound & np.append(~is_sound[1:], goes_on)[: len(is_sound)])
    suspects = np.setdiff1d(before_broken, headers)
    if form.layout.free and len(suspects):
        rows = read_fields(lines, suspects, form.positions)
        found[suspects[~rows["start"].str.contains(r"\d|(?i)unknown|none|^\s*$").to_numpy()]] = True
    return found


def _open_end(data: bytes, is_sound: NDArray[np.bool_]) -> bytes:
    """The broken lines at the end of a text: they may belong to a row that goes on in the next piece."""
    closed = len(is_sound) - int(np.argmax(is_sound[::-1])) if is_sound.any() else 0
    if closed == len(is_sound):
        return b""
    ends = np.flatnonzero(np.frombuffer(data, np.uint8) == ord("\n"))
    begin = int(ends[closed - 1]) + 1 if closed else 0
    return data[begin:] if len(data) - begin <= _MOST_OPEN_BYTES else b""


def _slice(data: bytes, begin: int, end: int) -> bytes:
    """A part of the text; all of it is not copied."""
    return data if begin == 0 and end == len(data) else data[begin:end]
