"""What rows of `sacct -P` look like: which columns are needed, and how a row shows that it was split rightly."""

from __future__ import annotations

import re
from bisect import bisect
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from freetrain.errors import InputError
from freetrain.replay.logs.headers import MADE_WITH, Header
from freetrain.replay.logs.mend import Fits, Layout
from freetrain.replay.logs.rows import Lines, one_byte_separated, split_lines
from freetrain.replay.logs.times import MISSING_WORDS

_ALIASES: Mapping[str, tuple[str, ...]] = {
    "job": ("jobid", "jobidraw", "job_id"),
    "submit": ("submit", "submit_time"),
    "start": ("start", "start_time"),
    "end": ("end", "end_time"),
    "elapsed": ("elapsedraw", "elapsed", "duration"),
    "limit": ("timelimitraw", "timelimit"),
    "state": ("state",),
    "partition": ("partition",),
    "nodes": ("nnodes", "allocnodes", "node_num"),
    "asked_nodes": ("reqnodes",),
    "cores": ("ncpus", "alloccpus", "reqcpus", "cpu_num"),
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

_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\S{0,6}|\d{9,11}|0")
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


@dataclass(frozen=True, slots=True)
class Form:
    """What rows look like below a header.

    Attributes:
        header: the header.
        positions: the columns that are needed, by what they tell.
        layout: how many there are, and how to tell whether a row was split rightly.
    """

    header: Header
    positions: Mapping[str, int]
    layout: Layout


def form_of(header: Header, name: str) -> Form:
    """The form of the rows below a header."""
    trailing = header.text.rstrip(" \r").endswith(header.separator)
    positions = _positions(header.names, name)
    return Form(header, positions, _layout(header.names, positions, trailing, header.separator))


def form_without_header(header: Header, data: bytes, name: str) -> Form:
    """The form of rows without a header: the one that the user gives does not show how they end."""
    positions = _positions(header.names, name)
    trailing = _ends_with_separator(split_lines(*one_byte_separated(data, header.separator)), len(header.names))
    return Form(header, positions, _layout(header.names, positions, trailing, header.separator))


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
            MADE_WITH,
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
