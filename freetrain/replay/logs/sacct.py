"""The text of `sacct -P`: header, rows, and free text that breaks rows."""

from __future__ import annotations

import re
from bisect import bisect
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from freetrain.errors import InputError
from freetrain.replay.logs.detect import is_sacct_header
from freetrain.replay.logs.mend import Fits, Layout, Mended, mend
from freetrain.replay.logs.rows import Lines, read_fields, split_lines, text_frame
from freetrain.replay.logs.times import MISSING_WORDS

_ALIASES: Mapping[str, tuple[str, ...]] = {
    "job": ("jobid", "jobidraw"),
    "submit": ("submit", "eligible"),
    "start": ("start",),
    "end": ("end",),
    "elapsed": ("elapsedraw", "elapsed"),
    "limit": ("timelimitraw", "timelimit"),
    "state": ("state",),
    "partition": ("partition",),
    "nodes": ("nnodes", "allocnodes", "reqnodes"),
    "cores": ("ncpus", "alloccpus", "reqcpus"),
    "node_list": ("nodelist",),
}
# fmt: off
_FREE_TEXT = (
    "jobname", "comment", "admincomment", "systemcomment", "submitline", "workdir", "reason", "constraints",
    "extra", "wckey", "container", "stdout", "stderr", "stdin", "licenses", "reservation",
)
# fmt: on

_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\S{0,6}|\d{9,11}|0")
# What the content of a column looks like, in rows that were split rightly.
_SHAPES: Mapping[str, re.Pattern[str]] = {
    **dict.fromkeys(("jobid", "jobidraw"), re.compile(r"\d+([_+.].*)?")),
    **dict.fromkeys(("submit", "eligible", "start", "end"), _TIME),
    **dict.fromkeys(
        ("nnodes", "allocnodes", "reqnodes", "ncpus", "alloccpus", "reqcpus"), re.compile(r"\d*\.?\d*[KM]?")
    ),
    **dict.fromkeys(
        ("elapsed", "elapsedraw", "suspended", "cputime", "cputimeraw", "uid", "gid"), re.compile(r"[\d:.-]*")
    ),
    **dict.fromkeys(("exitcode", "derivedexitcode"), re.compile(r"(\d+:\d+)?")),
    "state": re.compile(r"[A-Z][A-Z_]+( by \S*)?\+?|"),
    "partition": re.compile(r"\S*"),
    "nodelist": re.compile(r"(?=.*[A-Za-z])\S*|None assigned|"),
}


@dataclass(frozen=True, slots=True)
class SacctText:
    """Rows of one sacct file as text.

    Attributes:
        frame: columns ``line`` and those of the header that are needed, all text.
        mended: what became of broken rows.
        headers: header lines that were repeated within.
    """

    frame: pl.DataFrame
    mended: Mended
    headers: int


def read_sacct_text(data: bytes, name: str, columns: tuple[str, ...]) -> SacctText:
    """Split a sacct file into rows and fields.

    Args:
        data: the file's text.
        name: its name in messages.
        columns: its header, where it has none of its own.
    """
    lines = split_lines(data, "|")
    first = _first_line(lines)
    own_header = is_sacct_header(lines.text(first))
    header = lines.text(first) if own_header else ""
    names = _column_names(header.split("|") if own_header else columns)
    trailing = header.rstrip().endswith("|") if own_header else _ends_with_pipe(lines, len(columns))
    positions = _positions(names, name)
    layout = _layout(names, positions, trailing)
    body, headers = _body(lines, first, header)
    sound = lines.separators[body] == layout.separators
    frame = read_fields(lines, body[sound], positions)
    mended = mend(lines, body[~sound], layout)
    frame = pl.concat([frame, text_frame(mended.line, mended.fields, positions)])
    return SacctText(frame, mended, headers)


def _first_line(lines: Lines) -> int:
    return next(line for line in range(len(lines)) if lines.text(line).strip())


def _body(lines: Lines, first: int, header: str) -> tuple[NDArray[np.int64], int]:
    """Lines below the header but for those that repeat it, and how many do."""
    begin = first + 1 if header else first
    body = np.arange(begin, len(lines), dtype=np.int64)
    if not header:
        return body, 0
    length = lines.end[first] - lines.start[first]
    alike = body[(lines.end - lines.start)[body] == length]
    repeated = [line for line in alike.tolist() if lines.text(line) == header] if len(alike) else []
    return np.setdiff1d(body, np.array(repeated, np.int64)), len(repeated)


def _column_names(header: tuple[str, ...] | list[str]) -> tuple[str, ...]:
    """Names in small letters, without the widths of `--format=JobName%30` and the empty one after a last pipe."""
    names = [name.strip().lower().split("%")[0] for name in header]
    return tuple(names[:-1] if names and not names[-1] else names)


def _ends_with_pipe(lines: Lines, width: int) -> bool:
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
    if not {"node_list", "nodes", "cores"} & positions.keys():
        missing.append("NodeList (or NNodes or NCPUS)")
    if missing:
        raise InputError(
            f"{file} lacks the column {' and the column '.join(missing)}.",
            "Make it with sacct -a -P -X "
            "-o JobID,Partition,State,Submit,Start,End,Timelimit,NNodes,NCPUS,NodeList",
        )


def _layout(names: tuple[str, ...], positions: Mapping[str, int], trailing: bool) -> Layout:
    checks = tuple((at, _test(name)) for at, name in enumerate(names) if name in _SHAPES)
    fixed = sorted({*positions.values(), *(at for at, _ in checks)})
    known = sorted(names.index(name) for name in _FREE_TEXT if name in names)
    free = _one_per_gap(known, fixed)
    others = [at for at in range(len(names)) if at not in known and at not in fixed]
    gaps = {bisect(fixed, at) for at in free}
    return Layout(
        width=len(names),
        trailing=trailing,
        free=free,
        unread=tuple(at for at in _one_per_gap(others, fixed) if bisect(fixed, at) not in gaps),
        checks=checks,
        hangs_below=names[-1] in _FREE_TEXT and not trailing,
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


def _beginning(checks: list[tuple[int, Fits]]) -> Callable[[str], bool | None]:
    """Looks at the columns before the first with free text: no newline can have come between them."""

    def begins(line: str) -> bool | None:
        fields = line.split("|")
        whole = [check for check in checks if check[0] < len(fields) - 1]
        if not whole:
            return None if not checks else False
        return all(fits(fields[at]) for at, fits in whole)

    return begins
