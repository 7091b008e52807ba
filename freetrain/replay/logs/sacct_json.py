"""``sacct --json``: the same rows as of ``sacct -P``, whatever the release makes of a job's fields.

Jobs are read one by one, so that a large document need not be there as a whole.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from typing import Any

from freetrain.errors import InputError
from freetrain.replay.logs.sacct_text import find_headers

COLUMNS = (
    "JobID", "Cluster", "Account", "Partition", "State", "Submit", "Start", "End", "ElapsedRaw", "Suspended",
    "TimelimitRaw", "NNodes", "NCPUS", "NodeList", "AllocTRES",
)  # fmt: skip
_HEAD_BYTES = 1 << 16
_BEGINS_AS_JSON = re.compile(rb"^[ \t]*[\[{]", re.MULTILINE)
_LINES_AT_ONCE = 1 << 14
BLANKED = re.compile(r"[|\n\r]")
"""What would cut a row of text in two: a blank stands for it."""
_BEGINNING = re.compile(r"^[ \t]*(?=[\[{])", re.MULTILINE)
_BLANKS = re.compile(r"[ \t\n\r]*")
_BETWEEN = re.compile(r"[\s,\x1e]*")
"""What may stand between documents."""
_LONGEST_MARK = 16
"""No word, number or escape that was cut off is reported farther from the end of the text than that."""


def is_json(data: bytes) -> bool:
    """Whether a text is JSON: it begins so, or messages stand before it."""
    head = data[:_HEAD_BYTES]
    if head.lstrip()[:1] in (b"{", b"["):
        return True
    # A job's submission may hold JSON, too.
    return (
        b'"jobs"' in head and _BEGINS_AS_JSON.search(head) is not None and next(find_headers(head), None) is None
    )


def rows_of_json(pieces: Iterable[bytes], name: str) -> Iterator[bytes]:
    """The jobs of a JSON text as ``sacct -P`` would print them, some at a time; job n stands in line n + 1.

    Numbers are plain (21.08) or say whether they are set (23.02 and later), states are words or lists of them.
    Several documents may follow one another, and jobs may stand alone, one a line.

    Raises:
        InputError: it is not JSON, or holds no jobs as sacct prints them.
    """
    return in_pieces(chain(["|".join(COLUMNS)], _lines(pieces, name)))


def in_pieces(lines: Iterator[str]) -> Iterator[bytes]:
    """Lines of text, many at a time."""
    while some := list(islice(lines, _LINES_AT_ONCE)):
        # JSON may escape half a surrogate pair, which is no text.
        yield ("\n".join(some) + "\n").encode(errors="replace")


def _lines(pieces: Iterable[bytes], name: str) -> Iterator[str]:
    has_jobs = have_times = False
    for job in jobs_of_json(pieces, name):
        has_jobs, have_times = True, have_times or isinstance(_value(job, "time"), dict)
        yield "|".join(_fields(job))
    if not has_jobs:
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
    for what in ("end", "elapsed", "suspended", "limit"):
        yield _text(job, "time", what)
    yield _text(job, "allocation_nodes") or _count_of(job, "node")
    yield _count_of(job, "cpu") or _text(job, "required", "CPUs")
    yield _text(job, "nodes")
    yield ",".join(_resources(job))


def _resources(job: Any) -> Iterator[str]:
    """What the job had, as ``AllocTRES`` says it; memory counts in MiB."""
    for entry in _allocated(job):
        name = "/".join(filter(None, (_text(entry, "type"), _text(entry, "name"))))
        yield f"{name}={_text(entry, 'count')}{'M' if name == 'mem' else ''}"


def _allocated(job: Any) -> list[Any]:
    allocated = _value(job, "tres", "allocated")
    return allocated if isinstance(allocated, list) else []


def _count_of(job: Any, kind: str) -> str:
    return next((_text(entry, "count") for entry in _allocated(job) if _text(entry, "type") == kind), "")


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
    return BLANKED.sub(" ", _plain(value))


def _plain(value: Any) -> str:
    try:
        return str(value)
    except ValueError:  # an integer of thousands of digits
        return "a number of thousands of digits"


def jobs_of_json(pieces: Iterable[bytes], name: str) -> Iterator[Any]:
    """The jobs of all documents of a text: of lists, of objects with a list ``jobs``, and jobs that stand alone.

    Messages may stand before the first document.

    Raises:
        InputError: it is not JSON, or has no list of jobs; what came before may be used up by then.
    """
    text = _Text(pieces, name)
    text.find_beginning()
    while opening := text.next_mark(_BETWEEN):
        if opening == "[":
            yield from text.elements()
        elif opening == "{":
            yield from _of_object(text, name)
        else:
            text.value()
            raise _no_jobs(name)


def _of_object(text: _Text, name: str) -> Iterator[Any]:
    record, has_jobs = dict[str, Any](), False
    for key in text.members():
        if key == "jobs" and text.next_mark() == "[":
            yield from text.elements()
            has_jobs = True
        else:
            record[key] = text.value()
    if has_jobs:
        return
    if "job_id" not in record:
        raise _no_jobs(name)
    yield record


class _Text:
    """A text that is gone through once; what has been read of it is let go of."""

    def __init__(self, pieces: Iterable[bytes], name: str) -> None:
        self._pieces, self._name = iter(pieces), name
        self._decode = codecs.getincrementaldecoder("utf-8")(errors="replace").decode
        self._decoder = json.JSONDecoder()
        self._text, self._at, self._lines_before = "", 0, 0
        self._more()

    def find_beginning(self) -> None:
        found = _BEGINNING.search(self._text)
        self._at = found.end() if found else 0

    def next_mark(self, blanks: re.Pattern[str] = _BLANKS) -> str:
        """The next character that is not blank, which is not read yet; empty at the end of the text."""
        while True:
            self._at = blanks.match(self._text, self._at).end()  # type: ignore[union-attr]  # matches nothing, too
            if self._at < len(self._text):
                return self._text[self._at]
            if not self._more():
                return ""

    def value(self) -> Any:
        self.next_mark()
        while True:
            try:
                value, end = self._decoder.raw_decode(self._text, self._at)
            except json.JSONDecodeError as error:
                if not self._may_be_cut_off(error) or not self._more():
                    raise self._damaged(error.pos) from None
                continue
            except (ValueError, RecursionError):
                raise self._damaged(self._at) from None
            # A number that ends with the piece may go on in the next one.
            if not self._may_go_on(end) or not self._more():
                self._at = end
                return value

    def elements(self) -> Iterator[Any]:
        for _ in self._entries("[", "]"):
            yield self.value()

    def members(self) -> Iterator[str]:
        """Read an object key by key; the caller reads each key's value."""
        for _ in self._entries("{", "}"):
            yield self._key()

    def _entries(self, opening: str, closing: str) -> Iterator[None]:
        """Go from entry to entry of a list or an object; the caller reads each."""
        self._read(opening)
        if self.next_mark() == closing:
            self._read(closing)
            return
        yield
        while self._read(f",{closing}") == ",":
            yield

    def _key(self) -> str:
        if self.next_mark() != '"':
            raise self._damaged(self._at)
        key: str = self.value()
        self._read(":")
        return key

    def _read(self, marks: str) -> str:
        mark = self.next_mark()
        if not mark or mark not in marks:
            raise self._damaged(self._at)
        self._at += 1
        return mark

    def _more(self) -> bool:
        piece = next(self._pieces, None)
        if piece is None:
            return False
        self._lines_before += self._text.count("\n", 0, self._at)
        self._text, self._at = self._text[self._at :] + self._decode(piece), 0
        return True

    def _may_go_on(self, end: int) -> bool:
        """Whether the value that ends there may be the beginning of a longer number, whose rest is to come."""
        is_closed = self._text[end - 1] in '}]"'
        is_at_end = len(self._text) - end < _LONGEST_MARK
        return not is_closed and is_at_end and self._text[end : end + 1] in ("", *".eE+-")

    def _may_be_cut_off(self, error: json.JSONDecodeError) -> bool:
        is_at_end = error.pos >= len(self._text) - _LONGEST_MARK
        return is_at_end or error.msg.startswith("Unterminated string")

    def _damaged(self, at: int) -> InputError:
        line = self._lines_before + self._text.count("\n", 0, at) + 1
        return InputError(
            f"{self._name} is JSON that is damaged or cut off at line {line:,}; nothing was read from it.",
            "Make it again, and look whether the disk was full.",
        )


def _no_jobs(name: str) -> InputError:
    return InputError(
        f"{name} is JSON, but has no list of jobs.", "Give the output of `sacct --json` or `sacct -P`."
    )
