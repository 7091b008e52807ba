"""The text of `sacct -P`: headers, rows, and free text that breaks rows."""

from __future__ import annotations

import re
from bisect import bisect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import accumulate, groupby, pairwise

import numpy as np
import polars as pl

from freetrain.errors import InputError
from freetrain.replay.logs.headers import Header, find_headers
from freetrain.replay.logs.mend import Fits, Layout, mend
from freetrain.replay.logs.rows import Lines, one_byte_separated, read_fields, split_lines, text_frame
from freetrain.replay.logs.times import MISSING_WORDS

_ALIASES: Mapping[str, tuple[str, ...]] = {
    "job": ("jobid", "jobidraw"),
    "submit": ("submit",),
    "start": ("start",),
    "end": ("end",),
    "elapsed": ("elapsedraw", "elapsed"),
    "limit": ("timelimitraw", "timelimit"),
    "state": ("state",),
    "partition": ("partition",),
    "nodes": ("nnodes", "allocnodes"),
    "asked_nodes": ("reqnodes",),
    "cores": ("ncpus", "alloccpus", "reqcpus"),
    "tres": ("alloctres", "reqtres"),
    "node_list": ("nodelist",),
    "suspended": ("suspended",),
    "cluster": ("cluster",),
    "account": ("account",),
}
# fmt: off
_FREE_TEXT = (
    "jobname", "comment", "admincomment", "systemcomment", "submitline", "workdir", "reason", "constraints",
    "extra", "wckey", "container", "stdout", "stderr", "stdin", "licenses", "reservation",
)
_WITH_COMMAS = ("nodelist", "alloctres", "reqtres")
# fmt: on

_ROWS_AT_ONCE = 1 << 19
"""The text of all columns is as large as the file: only of so many rows is it there at a time."""
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\S{0,6}|\d{9,11}|0")
# What the content of a column looks like, in rows that were split rightly.
_SHAPES: Mapping[str, re.Pattern[str]] = {
    **dict.fromkeys(("jobid", "jobidraw"), re.compile(r"\d+([_+.].*)?")),
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


@dataclass(frozen=True, slots=True)
class SacctText:
    """Rows below one header as text.

    Attributes:
        rows: how many there are.
        frames: the rows, some at a time: columns ``line`` and those of the header that are needed, all text.
        lost: (line, reason) of each broken row that could not be mended, lines numbered from 1.
        headers: header lines that were repeated within.
    """

    rows: int
    frames: Iterator[pl.DataFrame]
    lost: list[tuple[int, str]]
    headers: int


def read_sacct_text(
    data: bytes, name: str, columns: tuple[str, ...], delimiter: str | None = None
) -> tuple[list[SacctText], int]:
    """Split a sacct file into rows and fields, header by header, and count the lines before the first.

    Args:
        data: the file's text.
        name: its name in messages.
        columns: its header, where it has none of its own.
        delimiter: what separates columns; None: what its header shows.
    """
    headers = list(find_headers(data, delimiter))
    parts, banner = [], 0
    begin = headers[0].begin if headers else len(data)
    if columns and begin:
        own = Header(0, (delimiter or "|").join(columns), delimiter or "|")
        parts.append(_part(data[:begin], own, 0, name, [], has_header=False))
    elif begin:
        banner = sum(bool(line.strip()) for line in data[:begin].split(b"\n"))
    groups = [list(group) for _, group in groupby(headers, key=lambda header: header.text)]
    ends = [*(group[0].begin for group in groups), len(data)][1:]
    for group, end in zip(groups, ends, strict=True):
        own = group[0]
        repeats = list(accumulate(data.count(b"\n", one.begin, other.begin) for one, other in pairwise(group)))
        first_line = data.count(b"\n", 0, own.begin)
        parts.append(_part(_slice(data, own.begin, end), own, first_line, name, repeats))
    return parts, banner


def _part(
    data: bytes, header: Header, first_line: int, name: str, repeats: list[int], has_header: bool = True
) -> SacctText:
    """The rows below one header.

    Args:
        data: the text from the header to the next.
        header: the header.
        first_line: number of the first line within the file, from 0.
        name: the file's name in messages.
        repeats: lines that repeat the header, numbered from 0 within ``data``.
        has_header: the header stands in ``data``.
    """
    data, separator = one_byte_separated(data, header.separator)
    lines = split_lines(data, separator)
    names = header.names
    ends_with_one = header.text.rstrip(" \r").endswith(header.separator)
    trailing = ends_with_one if has_header else _ends_with_separator(lines, len(names))
    positions = _positions(names, name)
    layout = _layout(names, positions, trailing, header.separator)
    body = np.delete(np.arange(len(lines)), [0, *repeats] if has_header else [])
    is_sound = lines.separators[body] == layout.separators
    sound, mended = body[is_sound], mend(lines, body[~is_sound], layout)

    def frames() -> Iterator[pl.DataFrame]:
        for begin in range(0, len(sound), _ROWS_AT_ONCE):
            yield read_fields(lines, sound[begin : begin + _ROWS_AT_ONCE], positions)
        # A field that owns separators has them as they stood in the file.
        own = [[cell.replace(separator, header.separator) for cell in fields] for fields in mended.fields]
        yield text_frame(mended.line, own, positions)

    lost = [(first_line + line + 1, reason) for line, reason in mended.lost]
    numbered = (frame.with_columns(pl.col("line") + first_line) for frame in frames())
    return SacctText(len(sound) + len(mended.line), numbered, lost, len(repeats))


def _slice(data: bytes, begin: int, end: int) -> bytes:
    """A part of the text; all of it is not copied."""
    return data if begin == 0 and end == len(data) else data[begin:end]


def _ends_with_separator(lines: Lines, width: int) -> bool:
    """Whether a headerless file was made with -p: most rows have one separator more than -P would print."""
    return len(lines) > 0 and int(np.median(lines.separators)) == width


def _positions(names: tuple[str, ...], file: str) -> dict[str, int]:
    positions: dict[str, int] = {}
    for role, aliases in _ALIASES.items():
        found = next((alias for alias in aliases if alias in names), None)
        if found is not None:
            positions[role] = names.index(found)
    _require(positions, file)
    return positions


def _require(positions: Mapping[str, int], file: str) -> None:
    missing = []
    if "job" not in positions:
        missing.append("JobID")
    if "start" not in positions:
        missing.append("Start")
    if "end" not in positions and "elapsed" not in positions:
        missing.append("End (or Elapsed)")
    if not {"node_list", "nodes", "asked_nodes", "cores", "tres"} & positions.keys():
        missing.append("NodeList (or NNodes, NCPUS or AllocTRES)")
    if missing:
        raise InputError(
            f"{file} lacks the column {' and the column '.join(missing)}.",
            "Make it with sacct -a -P -X "
            "-o JobID,Partition,State,Submit,Start,End,Timelimit,NNodes,NCPUS,NodeList,AllocTRES",
        )


def _layout(names: tuple[str, ...], positions: Mapping[str, int], trailing: bool, separator: str) -> Layout:
    # Node lists and TRES hold commas: where these separate columns, the surplus may be theirs.
    free_text = (*_FREE_TEXT, *_WITH_COMMAS) if separator == "," else _FREE_TEXT
    checks = tuple((at, _test(name)) for at, name in enumerate(names) if name in _SHAPES and name not in free_text)
    known = sorted(names.index(name) for name in free_text if name in names)
    fixed = sorted({*positions.values(), *(at for at, _ in checks)} - set(known))
    free = _one_per_gap(known, fixed)
    others = [at for at in range(len(names)) if at not in known and at not in fixed]
    gaps = {bisect(fixed, at) for at in free}
    return Layout(
        width=len(names),
        trailing=trailing,
        free=free,
        unread=tuple(at for at in _one_per_gap(others, fixed) if bisect(fixed, at) not in gaps),
        checks=checks,
        hangs_below=names[-1] in free_text and not trailing,
        begins=_beginning([check for check in checks if check[0] < min(known, default=len(names))]),
    )


def _one_per_gap(columns: list[int], fixed: list[int]) -> tuple[int, ...]:
    """One column between each two whose place is checked: the others there would do as well."""
    return tuple(sorted({bisect(fixed, at): at for at in reversed(columns)}.values()))


def _test(name: str) -> Fits:
    pattern = _SHAPES[name]

    def fits(text: str) -> bool:
        text = text.strip()
        return pattern.fullmatch(text) is not None or (pattern is _TIME and text.lower() in MISSING_WORDS)

    return fits


def _beginning(checks: list[tuple[int, Fits]]) -> Callable[[list[str]], bool | None]:
    """Looks at the columns before the first with free text: no newline can have come between them."""

    def begins(fields: list[str]) -> bool | None:
        whole = [check for check in checks if check[0] < len(fields) - 1]
        if not whole:
            return None if not checks else False
        return all(fits(fields[at]) for at, fits in whole)

    return begins
