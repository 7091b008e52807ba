"""``sacct --json``: the same rows as of ``sacct -P``, whatever the release makes of a job's fields."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from freetrain.errors import InputError
from freetrain.replay.logs.headers import find_headers
from freetrain.replay.logs.json_jobs import jobs_of_json

COLUMNS = (
    "JobID", "Cluster", "Account", "Partition", "State", "Submit", "Start", "End", "ElapsedRaw", "Suspended",
    "TimelimitRaw", "NNodes", "NCPUS", "NodeList", "AllocTRES",
)  # fmt: skip
_HEAD_BYTES = 1 << 16
_BEGINNING = re.compile(rb"^[ \t]*[\[{]", re.MULTILINE)
_JOBS_AT_ONCE = 1 << 14
_NOT_IN_A_FIELD = re.compile(r"[|\n\r]")


def is_json(data: bytes) -> bool:
    """Whether a text is JSON: it begins so, or messages stand before it."""
    head = data[:_HEAD_BYTES]
    if head.lstrip()[:1] in (b"{", b"["):
        return True
    # A job's submission may hold JSON, too.
    return b'"jobs"' in head and _BEGINNING.search(head) is not None and next(find_headers(head), None) is None


def rows_of_json(pieces: Iterable[bytes], name: str) -> Iterator[bytes]:
    """The jobs of a JSON text as ``sacct -P`` would print them, some at a time; job n stands in line n + 1.

    Numbers are plain (21.08) or say whether they are set (23.02 and later), states are words or lists of them.
    Several documents may follow one another, and jobs may stand alone, one a line.

    Raises:
        InputError: it is not JSON, or holds no jobs as sacct prints them.
    """
    jobs = jobs_of_json(pieces, name)
    before = "|".join(COLUMNS) + "\n"
    have_times = False
    while some := list(islice(jobs, _JOBS_AT_ONCE)):
        have_times = have_times or any(isinstance(_value(job, "time"), dict) for job in some)
        lines = "".join("|".join(_fields(job)) + "\n" for job in some)
        yield (before + lines).encode(errors="replace")
        before = ""
    if before:
        raise InputError(
            f"{name} is JSON, but its list of jobs is empty.", "Run sacct with -a and the right -S and -E."
        )
    if not have_times:
        raise InputError(
            f"{name} is JSON, but its jobs have no times as sacct --json gives them.",
            "Give the output of `sacct --json` or `sacct -P`; squeue shows what runs now alone.",
        )


def _fields(job: Any) -> Iterator[str]:
    """A job's fields in the order of ``COLUMNS``; empty where it says nothing; the time 0 is one not reached."""
    yield _text(job, "job_id")
    yield _text(job, "cluster")
    yield _text(job, "account")
    yield _text(job, "partition")
    yield _text(job, "state", "current")
    yield _text(job, "time", "submission")
    # What has no times is no job that never started: it is not understood.
    yield _text(job, "time", "start") if isinstance(_value(job, "time"), dict) else "not given"
    yield _text(job, "time", "end")
    yield _text(job, "time", "elapsed")
    yield _text(job, "time", "suspended")
    yield _text(job, "time", "limit")
    yield _text(job, "allocation_nodes") or _allocated(job, "node")
    yield _allocated(job, "cpu") or _text(job, "required", "CPUs")
    yield _text(job, "nodes")
    yield ",".join(_resources(job))


def _resources(job: Any) -> Iterator[str]:
    """What the job had, as ``AllocTRES`` says it; memory counts in MiB."""
    allocated = _value(job, "tres", "allocated")
    for entry in allocated if isinstance(allocated, list) else ():
        name = "/".join(filter(None, (_text(entry, "type"), _text(entry, "name"))))
        yield f"{name}={_text(entry, 'count')}{'M' if name == 'mem' else ''}"


def _allocated(job: Any, kind: str) -> str:
    allocated = _value(job, "tres", "allocated")
    for entry in allocated if isinstance(allocated, list) else ():
        if _text(entry, "type") == kind:
            return _text(entry, "count")
    return ""


def _value(record: Any, *path: str) -> Any:
    for key in path:
        record = record.get(key) if isinstance(record, dict) else None
    return record


def _text(record: Any, *path: str) -> str:
    value = _value(record, *path)
    if isinstance(value, dict):
        value = value.get("number") if value.get("set") and not value.get("infinite") else None
    if isinstance(value, list):
        value = "+".join(str(word) for word in value)
    if value is None or isinstance(value, bool | dict):
        return ""
    return _NOT_IN_A_FIELD.sub(" ", _plain(value))


def _plain(value: Any) -> str:
    try:
        return str(value)
    except ValueError:  # an integer of thousands of digits
        return "a number of thousands of digits"
