"""Header lines of sacct's output: telling them from rows, and what separates their columns."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

MADE_WITH = (
    "Make it with sacct -a -P -X -D -S FROM -E UNTIL "
    "-o JobID,Partition,State,Submit,Start,End,Timelimit,NNodes,NCPUS,NodeList,AllocTRES"
)
"""How to make a log that has all that is read; docs/logs.md says the same."""

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
"""What may stand before a header: a file's byte-order mark, also where files were joined, and a comment's sign."""
_JOB_COLUMN = re.compile(r"job_?id", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Header:
    """A header line.

    Attributes:
        begin: offset of its first byte.
        text: the line.
        separator: what stands between its columns; sacct prints a pipe, or what --delimiter says.
    """

    begin: int
    text: str
    separator: str

    @property
    def names(self) -> tuple[str, ...]:
        """Its columns, as ``column_names`` makes them."""
        return column_names(self.text.split(self.separator))


def column_names(header: list[str] | tuple[str, ...]) -> tuple[str, ...]:
    """Names in small letters, without quotes, widths (`JobName%30`) and the empty one after a last separator."""
    names = [name.strip().strip('"').strip().lower().split("%")[0] for name in header]
    return tuple(names[:-1] if names and not names[-1] else names)


def separator_of(line: str, expected: str | None = None) -> str | None:
    """What separates the columns of a header line; None for a line that is no header.

    Args:
        line: any line.
        expected: the separator, if it is known.
    """
    found = _FIRST_TWO.match(line.replace('"', ""))
    separator = expected or (found[1] if found else None)
    if separator is None or len(_NAMES.intersection(column_names(line.split(separator)))) < 2:
        return None
    return separator


def find_headers(data: bytes, expected: str | None = None) -> Iterator[Header]:
    """Every header line of a text whose first stands near its beginning.

    Files that were joined have one in the middle. Whatever its columns are, it names the job's as the first does.
    """
    first = _first_header(data, expected)
    if first is None:
        return
    yield first
    yield from further_headers(data, first, _end_of_line(data, first.begin), expected)


def further_headers(data: bytes, first: Header, at: int, expected: str | None = None) -> Iterator[Header]:
    """Header lines of a text behind an offset.

    Args:
        data: the text.
        first: the first header of the file.
        at: the offset.
        expected: what separates columns, if it is known.
    """
    job_column = _JOB_COLUMN.search(first.text)
    spelled = job_column[0].encode() if job_column else b"JobID"
    while (at := data.find(spelled, at)) >= 0:
        header = _header_at(data, data.rfind(b"\n", 0, at) + 1, expected)
        if header is not None:
            yield header
        at = _end_of_line(data, at)


def _first_header(data: bytes, expected: str | None) -> Header | None:
    begin, end = 0, min(len(data), _HEAD_BYTES)
    while begin < end:
        header = _header_at(data, begin, expected)
        if header is not None:
            return header
        begin = _end_of_line(data, begin) + 1
    return None


def _header_at(data: bytes, begin: int, expected: str | None) -> Header | None:
    text = data[begin : _end_of_line(data, begin)].decode(errors="replace").lstrip(_MARKS)
    separator = separator_of(text, expected)
    return None if separator is None else Header(begin, text, separator)


def _end_of_line(data: bytes, at: int) -> int:
    end = data.find(b"\n", at)
    return len(data) if end < 0 else end
