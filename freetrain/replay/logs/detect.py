"""Telling what kind of log a file is, or that it is none."""

from __future__ import annotations

from enum import StrEnum

from freetrain.errors import InputError

_HEAD_BYTES = 1 << 16
_SWF_FIELDS = 18
_EXPECTED = "Give the output of `sacct -P`, an SWF log, or node events (CSV with the header t,node,idle)."
# fmt: off
_SACCT_NAMES = frozenset({
    "jobid", "jobidraw", "jobname", "user", "uid", "group", "gid", "account", "cluster", "partition", "qos",
    "state", "exitcode", "submit", "eligible", "start", "end", "elapsed", "elapsedraw", "timelimit",
    "nnodes", "allocnodes", "reqnodes", "ncpus", "alloccpus", "reqcpus", "nodelist",
})
# fmt: on


class LogFormat(StrEnum):
    """The kinds of log that can be read, named as in reports."""

    SACCT = "sacct"
    SWF = "SWF"
    NODE_EVENTS = "node events"


def detect_format(data: bytes, name: str, columns_given: bool) -> LogFormat:
    """What kind of log the text is.

    Args:
        data: the file's text, unpacked.
        name: the file's name in messages.
        columns_given: the user gave the header of a headerless sacct file.

    Raises:
        InputError: if it is none; the sentence says what was found.
    """
    _refuse_binary(data, name)
    lines = [line.strip() for line in data[:_HEAD_BYTES].decode(errors="replace").split("\n")]
    lines = [line for line in lines if line]
    if not lines:
        raise InputError(f"{name} is empty.", _EXPECTED)
    if _is_swf(lines):
        return LogFormat.SWF
    if set(_cells(lines[0], ",")) >= {"t", "node", "idle"}:
        return LogFormat.NODE_EVENTS
    if is_sacct_header(lines[0]) or (columns_given and "|" in lines[0]):
        return LogFormat.SACCT
    raise _no_log(lines, name)


def is_sacct_header(line: str) -> bool:
    """True for a line of column names such as sacct prints."""
    return "|" in line and len(_SACCT_NAMES.intersection(_cells(line, "|"))) >= 2


def _cells(line: str, separator: str) -> list[str]:
    return [cell.strip().lower() for cell in line.split(separator)]


def _is_swf(lines: list[str]) -> bool:
    first = next((line for line in lines if not line.startswith(";")), None)
    if first is None:
        return True
    return lines[0].startswith(";") or (len(first.split()) == _SWF_FIELDS and _numeric(first.split()))


def _numeric(cells: list[str]) -> bool:
    return all(cell.lstrip("-").replace(".", "", 1).isdigit() for cell in cells)


def _refuse_binary(data: bytes, name: str) -> None:
    if b"\0" in data[:_HEAD_BYTES]:
        raise InputError(f"{name} is a binary file, not a log.", _EXPECTED)


def _no_log(lines: list[str], name: str) -> InputError:
    first = lines[0]
    if first[0] in "{[":
        return InputError(f"{name} is JSON, which freetrain does not read.", "Use `sacct -P` in place of --json.")
    if first[0] == "<":
        return InputError(f"{name} is HTML or XML, not a log.", _EXPECTED)
    if len(lines) > 1 and set(lines[1]) == {"-", " "}:
        return InputError(
            f"{name} looks like sacct's table for people, whose columns are cut off.",
            "Make it again with `sacct -P` (--parsable2).",
        )
    if first.count("|") >= 2:
        return InputError(
            f"{name} has no header line that sacct would print; its first line is {_quoted(first)}.",
            "If it was made with -n (--noheader), give the column names with --columns JobID,Start,End,…",
        )
    return InputError(f"{name} is no log that freetrain knows; its first line is {_quoted(first)}.", _EXPECTED)


def _quoted(line: str) -> str:
    shown = line if len(line) <= 60 else line[:59] + "…"
    return repr(shown)
