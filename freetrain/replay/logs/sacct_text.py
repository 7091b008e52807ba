"""The text of `sacct -P`: header lines, the form of the rows below them, and the rows as fields."""

from __future__ import annotations

import re
from bisect import bisect
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain, pairwise

import numpy as np
import polars as pl
from numpy.typing import NDArray

from freetrain.errors import InputError
from freetrain.replay.logs.parsed import RowTally
from freetrain.replay.logs.rows import (
    Lines,
    RowLayout,
    mend,
    one_byte_separated,
    read_fields,
    split_lines,
    text_frame,
    way_to_share,
)
from freetrain.replay.logs.times import MISSING_WORDS

MADE_WITH = (
    "Make it with sacct -a -P -X -D -S FROM -E UNTIL "
    "-o JobID,Partition,State,Submit,Start,End,Timelimit,NNodes,NCPUS,NodeList,AllocTRES"
)
"""Advice to make a log that has all that is read; docs/reference/logs.md says the same."""

_HEAD_BYTES = 1 << 16
# fmt: off
_NAMES = frozenset({
    "jobid", "jobidraw", "jobname", "user", "uid", "group", "gid", "account", "cluster", "partition", "qos",
    "state", "exitcode", "submit", "eligible", "start", "end", "elapsed", "elapsedraw", "timelimit",
    "nnodes", "allocnodes", "reqnodes", "ncpus", "alloccpus", "reqcpus", "alloctres", "nodelist",
    # as in public traces: Acme, Helios
    "job_id", "submit_time", "start_time", "end_time", "node_num",
})
# fmt: on
_FIRST_TWO = re.compile(r",?\s*[A-Za-z]\w*(?:%-?\d+)?[ ]*([^\w\s%]+|\t)\s*[A-Za-z]")
_MARKS = "\ufeff# "
"""Characters before a header: a file's byte-order mark, also where files were joined, and a comment's sign."""
_JOB_COLUMN = re.compile(r"job_?id", re.IGNORECASE)
_ALIASES: Mapping[str, tuple[str, ...]] = {
    "job": ("jobid", "jobidraw", "job_id"),
    "submit": ("submit", "submit_time"),
    "start": ("start", "start_time"),
    "end": ("end", "end_time"),
    "elapsed": ("elapsedraw", "elapsed", "duration"),
    "limit": ("timelimitraw", "timelimit"),
    "state": ("state",),
    "partition": ("partition",),
    "had_nodes": ("nnodes", "allocnodes", "node_num"),
    "asked_nodes": ("reqnodes",),
    "had_cores": ("ncpus", "alloccpus", "reqcpus", "cpu_num"),
    "tres": ("alloctres", "reqtres"),
    "node_list": ("nodelist",),
    "suspended": ("suspended",),
    "cluster": ("cluster",),
    "account": ("account",),
}
_HARDLY_REPEATED = ("job", "submit", "start", "end")
REPEATED = tuple(role for role in _ALIASES if role not in _HARDLY_REPEATED)
"""Roles of columns of which few texts differ: they are read as categories."""
ROLES = (*_HARDLY_REPEATED, *REPEATED)
# fmt: off
_FREE_TEXT = (
    "jobname", "comment", "admincomment", "systemcomment", "submitline", "workdir", "reason", "constraints",
    "extra", "wckey", "container", "stdout", "stderr", "stdin", "licenses", "reservation",
)
_WITH_COMMAS = ("nodelist", "alloctres", "reqtres")
# fmt: on
_TIME = re.compile(
    rf"\d{{4}}-\d\d-\d\dT\d\d:\d\d:\d\d\S{{0,6}}|\d{{9,11}}|0|(?i:{'|'.join(map(re.escape, MISSING_WORDS))})"
)
_LIKE_A_TIME = re.compile(r"\d|unknown|none|^\s*$", re.IGNORECASE)
# What the content of a column looks like, in rows that were split rightly.
_SHAPES: Mapping[str, re.Pattern[str]] = {
    **dict.fromkeys(("jobid", "jobidraw"), re.compile(r"\d+([_+.].*)?|[A-Za-z][\w-]*\d[\w-]*")),
    **dict.fromkeys(("submit", "eligible", "start", "end"), _TIME),
    **dict.fromkeys(
        ("nnodes", "allocnodes", "reqnodes", "ncpus", "alloccpus", "reqcpus"), re.compile(r"\d*(\.\d*)?[KM]?")
    ),
    **dict.fromkeys(
        ("elapsed", "elapsedraw", "suspended", "cputime", "cputimeraw", "uid", "gid"), re.compile(r"[\d:.-]*")
    ),
    **dict.fromkeys(("exitcode", "derivedexitcode"), re.compile(r"(\d+:\d+)?")),
    "state": re.compile(r"[A-Z][A-Z_]+( by \S*)?\+?|"),
    **dict.fromkeys(("partition", "account", "cluster"), re.compile(r"\S*")),
    **dict.fromkeys(("alloctres", "reqtres"), re.compile(r"([^\s=]+=\S+)?")),
    "nodelist": re.compile(r"(?=.*[A-Za-z])\S*|None assigned|"),
}
_MAX_OPEN_BYTES = 1 << 25
"""Most bytes of a row: what is broken for longer than that is no row that goes on."""


@dataclass(frozen=True, slots=True)
class Header:
    """A header line.

    Attributes:
        separator: text between its columns; sacct prints a pipe, or what --delimiter says.
    """

    begin: int
    text: str
    separator: str

    @property
    def names(self) -> tuple[str, ...]:
        """Names of its columns, as ``column_names`` makes them."""
        return column_names(self.text.split(self.separator))


def column_names(header: list[str] | tuple[str, ...]) -> tuple[str, ...]:
    """Names in small letters, without quotes, widths (`JobName%30`) and the empty one after a last separator."""
    names = [name.strip().strip('"').strip().lower().split("%")[0] for name in header]
    return tuple(names[:-1] if names and not names[-1] else names)


def column_positions(names: tuple[str, ...], aliases: Mapping[str, tuple[str, ...]]) -> dict[str, int]:
    """Role → position of its column: of several with that role, the alias that stands first counts."""
    return {role: names.index(alias) for role in aliases for alias in reversed(aliases[role]) if alias in names}


def role_of(column: str) -> str:
    """Role of one of sacct's columns; empty for one that is not read."""
    return next((role for role, aliases in _ALIASES.items() if column.lower() in aliases), "")


def separator_of(line: str, expected: str | None = None) -> str | None:
    """Separator of the columns of a header line; None for a line that is no header."""
    found = _FIRST_TWO.match(line.replace('"', ""))
    separator = expected or (found[1] if found else None)
    if separator is None or len(_NAMES.intersection(column_names(line.split(separator)))) < 2:
        return None
    return separator


def find_headers(data: bytes, expected: str | None = None, first: Header | None = None) -> Iterator[Header]:
    """Every header line of a text whose first stands near its beginning, or stood before it (``first``).

    Files that were joined have one in the middle. Whatever its columns are, it names the job's as the first does.
    """
    at = 0
    if first is None:
        while first is None and at < min(len(data), _HEAD_BYTES):
            first, at = _header_at(data, at, expected), _end_of_line(data, at) + 1
        if first is None:
            return
        yield first
    job_column = _JOB_COLUMN.search(first.text)
    # A search for the job column's name finds the few lines that may be headers, without a look at each line.
    spelled = job_column[0].encode() if job_column else b"JobID"
    while (at := data.find(spelled, at)) >= 0:
        header = _header_at(data, data.rfind(b"\n", 0, at) + 1, expected)
        if header is not None:
            yield header
        at = _end_of_line(data, at)


def _header_at(data: bytes, begin: int, expected: str | None) -> Header | None:
    text = data[begin : _end_of_line(data, begin)].decode(errors="replace").lstrip(_MARKS)
    separator = separator_of(text, expected)
    return None if separator is None else Header(begin, text, separator)


def _end_of_line(data: bytes, at: int) -> int:
    end = data.find(b"\n", at)
    return len(data) if end < 0 else end


@dataclass(frozen=True, slots=True)
class Form:
    """Form of the rows below a header.

    Attributes:
        positions: role → position of each column that is needed.
        layout: number of columns, and how to tell whether a row was split rightly.
    """

    header: Header
    positions: Mapping[str, int]
    layout: RowLayout


_NEEDED = {
    "JobID": ("job",),
    "Start": ("start",),
    "End (or Elapsed)": ("end", "elapsed"),
    "NodeList (or NNodes, NCPUS or AllocTRES)": ("node_list", "had_nodes", "asked_nodes", "had_cores", "tres"),
}


def _form_of(header: Header, file: str, trailing: bool) -> Form:
    """The form of the rows below a header; ``trailing``: each ends with a separator."""
    names = header.names
    positions = column_positions(names, _ALIASES)
    missing = [column for column, roles in _NEEDED.items() if positions.keys().isdisjoint(roles)]
    if missing:
        raise InputError(f"{file} lacks the column {' and the column '.join(missing)}.", MADE_WITH)
    # Node lists and TRES hold commas: where these separate columns, the surplus may be theirs.
    free_text = (*_FREE_TEXT, *_WITH_COMMAS) if header.separator == "," else _FREE_TEXT
    checks = [(at, _SHAPES[name]) for at, name in enumerate(names) if name in _SHAPES and name not in free_text]
    known = sorted(names.index(name) for name in free_text if name in names)
    fixed = sorted({*positions.values(), *(at for at, _ in checks)} - set(known))
    others = [at for at in range(len(names)) if at not in known and at not in fixed]
    free, anywhere = _one_per_gap(known, fixed), _one_per_gap([*known, *others], fixed)
    layout = RowLayout(
        width=len(names),
        trailing=trailing,
        free=free,
        # Surplus does no harm in columns that nothing is read from either.
        ways=[way_to_share(own, checks) for own in (*((at,) for at in free), free, anywhere)],
        hangs_below=names[-1] in free_text and not trailing,
        first_checks=[check for check in checks if check[0] < min(known, default=len(names))],
    )
    return Form(header, positions, layout)


def _one_per_gap(columns: list[int], fixed: list[int]) -> tuple[int, ...]:
    """The first of these between each two columns whose place is checked: the others there would do as well."""
    return tuple(sorted({bisect(fixed, at): at for at in reversed(columns)}.values()))


@dataclass(slots=True)
class _TextSection:
    """Neighbouring lines of one form: from where to where, and where the headers among them begin."""

    form: Form
    begin: int
    headers: list[int]
    end: int


def read_sacct_text(
    pieces: Iterable[bytes], file: int, columns: tuple[str, ...], delimiter: str | None, tally: RowTally
) -> Iterator[pl.DataFrame]:
    """The rows of a sacct file as text, piece by piece, with the columns ``line`` and those that are needed.

    Those in ``REPEATED`` are categories; mended rows come last. Headers and rows that are lost are counted.
    """
    name, pieces = tally.file_names[file], iter(pieces)
    head = next(pieces, b"")
    headers, begin, form = _beginning(head, columns, delimiter, name)
    first = headers[0] if headers else None
    banner = sum(bool(line.strip()) for line in head[:begin].split(b"\n"))
    tally.read += banner
    tally.ignore("before the header", banner)
    # What every file needs is not counted among the repeated ones.
    needed_headers = int(form is None)
    open_end, lines_before = b"", 0
    for number, (piece, following) in enumerate(pairwise(chain([head], pieces, [None]))):
        data = open_end + (piece or b"")
        if number:
            begin, headers = 0, list(find_headers(data, delimiter, first)) if first else []
        for section in _sections(data, begin, form, headers, name):
            goes_on = section.end == len(data) and following is not None
            rows, lost, open_end = _split(data, section, lines_before, goes_on)
            repeated = len(section.headers) - needed_headers
            tally.read += len(rows) + len(lost) + repeated
            tally.ignore("repeated header", repeated)
            tally.reject((file, line, reason) for line, reason in lost)
            yield rows
            form, needed_headers = section.form, 0
        lines_before += data.count(b"\n") - open_end.count(b"\n")


def _beginning(
    head: bytes, columns: tuple[str, ...], delimiter: str | None, name: str
) -> tuple[list[Header], int, Form | None]:
    """The headers in a file's first piece, where rows or a header begin, and the form of rows before it."""
    headers = list(find_headers(head, delimiter))
    begin = headers[0].begin if headers else len(head)
    if columns and headers and not begin:
        # The names that the user gives replace those of the file's first line.
        own = headers[0].names
        if len(own) != len(columns):
            raise InputError(
                f"{name} has a header of {len(own)} columns, and --columns names {len(columns)}.",
                "Give a name for each column of the header, or leave --columns out.",
            )
        headers[0] = replace(headers[0], text=headers[0].separator.join(columns))
    if not columns or not begin:
        return headers, begin, None
    given = Header(0, (delimiter or "|").join(columns), delimiter or "|")
    lines = split_lines(*one_byte_separated(head[:begin], given.separator))
    # Made with -p, if most rows have one separator more than -P would print.
    trailing = len(lines) > 0 and int(np.median(lines.separators)) == len(given.names)
    return headers, 0, _form_of(given, name, trailing)


def _sections(data: bytes, begin: int, form: Form | None, headers: list[Header], name: str) -> list[_TextSection]:
    """The sections of a text that begins with rows of this form (None: with the first header)."""
    found = [] if form is None else [_TextSection(form, begin, [], len(data))]
    for header in headers:
        if not found or header.text != found[-1].form.header.text:
            if found:
                found[-1].end = header.begin
            trailing = header.text.rstrip(" \r").endswith(header.separator)
            found.append(_TextSection(_form_of(header, name, trailing), header.begin, [], len(data)))
        found[-1].headers.append(header.begin)
    return found


def _split(
    data: bytes, section: _TextSection, lines_before: int, goes_on: bool
) -> tuple[pl.DataFrame, list[tuple[int, str]], bytes]:
    """A section's rows, line and reason of lost ones, and the end of its text that is left for the next piece."""
    form, is_all = section.form, section.begin == 0 and section.end == len(data)
    # A slice of bytes is a copy, and most pieces have one section.
    own = data if is_all else data[section.begin : section.end]
    text, separator = one_byte_separated(own, form.header.separator)
    lines = split_lines(text, separator)
    headers = [own.count(b"\n", 0, begin - section.begin) for begin in section.headers]
    is_sound = lines.separators == form.layout.separators
    # Header lines are no rows, however many separators they have; they are taken out below.
    is_sound[headers] = True
    is_sound &= ~_is_sound_by_chance(lines, is_sound, headers, form, goes_on)
    open_end = _open_end(own, is_sound) if goes_on else b""
    body = np.delete(np.arange(len(lines) - open_end.count(b"\n")), headers)
    sound, mended = body[is_sound[body]], mend(lines, body[~is_sound[body]], form.layout)
    lines_before += data.count(b"\n", 0, section.begin)
    rows = read_fields(lines, sound, form.positions, lines_before, REPEATED)
    if mended.line:
        # A field that owns separators has them as they stood in the file.
        cells = [[cell.replace(separator, form.header.separator) for cell in fields] for fields in mended.fields]
        rows = pl.concat([rows, text_frame(mended.line, cells, form.positions, lines_before, REPEATED)])
    lost = [(lines_before + line + 1, reason) for line, reason in mended.lost]
    return rows, lost, open_end


def _is_sound_by_chance(
    lines: Lines, is_sound: NDArray[np.bool_], headers: list[int], form: Form, goes_on: bool
) -> NDArray[np.bool_]:
    """Lines with as many separators as a row, whose start is no time, where the line after them is broken."""
    # A newline and separators in free text have made up for each other.
    found = np.zeros(len(is_sound), bool)
    # What follows the last line is not known where the text goes on: it counts as broken.
    before_broken = np.flatnonzero(is_sound & np.append(~is_sound[1:], goes_on)[: len(is_sound)])
    suspects = np.setdiff1d(before_broken, headers)
    if form.layout.free and len(suspects):
        at = form.positions["start"]
        starts = (lines.text(line).split(lines.separator)[at] for line in suspects.tolist())
        found[suspects[[_LIKE_A_TIME.search(start) is None for start in starts]]] = True
    return found


def _open_end(data: bytes, is_sound: NDArray[np.bool_]) -> bytes:
    """The broken lines at the end of a text: they may belong to a row that goes on in the next piece."""
    closed = len(is_sound) - int(np.argmax(is_sound[::-1])) if is_sound.any() else 0
    if closed == len(is_sound):
        return b""
    ends = np.flatnonzero(np.frombuffer(data, np.uint8) == ord("\n"))
    begin = int(ends[closed - 1]) + 1 if closed else 0
    return data[begin:] if len(data) - begin <= _MAX_OPEN_BYTES else b""
