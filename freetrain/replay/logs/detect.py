"""Telling what kind of log a file is, or that it is none."""

from __future__ import annotations

import re
from enum import StrEnum

from freetrain.errors import InputError
from freetrain.replay.logs.headers import MADE_WITH, find_headers

_HEAD_BYTES = 1 << 16
_SWF_FIELDS = 18
_EXPECTED = (
    "Give the output of `sacct -P` or `sacct --json`, an SWF log, or node events (CSV with the header "
    "t,node,idle)."
)
_TABLE_ROW = re.compile(r"\d+([_+.]\S*)?( +\S+){3,}")
_ONE_MOMENT = re.compile(r"JOBID +PARTITION|PARTITION +AVAIL|NODELIST +NODES|(JobId|NodeName|PartitionName)=")
"""How what squeue, sinfo and scontrol print begins."""


class LogFormat(StrEnum):
    """The kinds of log that can be read, named as in reports."""

    SACCT = "sacct"
    SWF = "SWF"
    NODE_EVENTS = "node events"


def detect_format(data: bytes, name: str, columns_given: bool, delimiter: str | None = None) -> LogFormat:
    """What kind of log the text is.

    Args:
        data: the file's text, unpacked.
        name: the file's name in messages.
        columns_given: the user gave the header of a headerless sacct file.
        delimiter: what separates sacct's columns, where the user says so.

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
    if any(is_event_header(line) for line in lines):
        return LogFormat.NODE_EVENTS
    has_header = next(find_headers(data, delimiter), None) is not None
    if has_header or (columns_given and (delimiter or "|") in lines[0]):
        return LogFormat.SACCT
    raise _other_separator(data, name, delimiter) or _no_log(lines, name)


def is_event_header(line: str) -> bool:
    """True for the header of node events."""
    return {"t", "node", "idle"} <= {cell.strip().lower() for cell in line.split(",")}


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


def _other_separator(data: bytes, name: str, delimiter: str | None) -> InputError | None:
    own = next(find_headers(data), None) if delimiter is not None else None
    if own is None:
        return None
    return InputError(
        f"{name} separates its columns with {own.separator!r}, not with {delimiter!r}.",
        "Leave --delimiter out: where there is a header, it is not needed.",
    )


def _no_log(lines: list[str], name: str) -> InputError:
    first = lines[0]
    if first[0] == "<":
        return InputError(f"{name} is HTML or XML, not a log.", _EXPECTED)
    if _ONE_MOMENT.match(first):
        return InputError(
            f"{name} shows one moment, as squeue, sinfo and scontrol do; a replay needs what jobs did over days.",
            MADE_WITH,
        )
    if any(set(line) == {"-", " "} for line in lines[:50]) or _TABLE_ROW.fullmatch(first):
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
