"""Logs that are not sacct's text, put into its words: public traces, tables of the user's, and ``sacct --json``.

A trace is a table of ``traces.toml``, or a file of the user's with the same keys. Its files may be CSV, JSON or
Parquet. All of them get a header in sacct's words, and are read as sacct's text is. Values of a trace are put into
sacct's words by whole columns, before anything else is done with them.

``sacct --json`` gives the same rows as ``sacct -P``, whatever the release makes of a job's fields. Jobs of JSON
are read one by one, so that a large document need not be there as a whole.
"""

from __future__ import annotations

import codecs
import json
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property, partial
from importlib import resources
from itertools import chain, islice
from pathlib import Path
from typing import Any

import polars as pl
from pydantic import BaseModel, ConfigDict

from freetrain.errors import InputError
from freetrain.replay.logs.sacct_text import find_headers, role_of
from freetrain.replay.logs.toml_files import read_entry

PARQUET = b"PAR1"
_ROWS_AT_ONCE = 1 << 16
_SEE = "docs/reference/logs.md tells its keys."
_TIMES = ("submit", "start", "end")
_HEAD_BYTES = 1 << 16
_BEGINS_AS_JSON = re.compile(rb"^[ \t]*[\[{]", re.MULTILINE)
_LINES_AT_ONCE = 1 << 14
_BLANKED = re.compile(r"[|\n\r]")
"""Characters that would cut a row of text in two: a blank stands for each."""
_BEGINNING = re.compile(r"^[ \t]*(?=[\[{])", re.MULTILINE)
_BLANKS = re.compile(r"[ \t\n\r]*")
_BETWEEN = re.compile(r"[\s,\x1e]*")
"""Text that may stand between documents."""
_LONGEST_MARK = 16
"""Most characters from the end of the text at which a cut-off word, number or escape is reported."""


class Trace(BaseModel):
    """Rules by which the files of a trace are read.

    Attributes:
        columns: sacct's name of a column → the file's, or several of which it has one. In JSON the path to the
            value, with dots; what lies in lists on the way is put together with commas.
        header: the columns of a CSV file without a header.
        rows: in JSON: the list within a job whose entries are runs of their own.
        texts: sacct's name → text around each value: ``{value}``, or ``{count}`` of the values between commas.
        words: sacct's name → the file's word → sacct's.
        resources: names of resources in AllocTRES, as numbers in Slurm's database → sacct's.
        units: sacct's name → number of the file's units that are one of sacct's.
        later_by_s: seconds that are added to times which are numbers.
        timezone: zone of times that name none (zoneinfo name).
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    columns: dict[str, str | tuple[str, ...]] = {}
    header: tuple[str, ...] = ()
    rows: str = ""
    texts: dict[str, str] = {}
    words: dict[str, dict[str, str]] = {}
    resources: dict[str, str] = {}
    units: dict[str, float] = {}
    later_by_s: float = 0.0
    timezone: str = "UTC"

    @cached_property
    def sacct_name(self) -> dict[str, str]:
        """The file's names → sacct's."""
        return {own: name for name in self.columns for own in self.own_names(name)}

    def own_names(self, name: str) -> tuple[str, ...]:
        """Names that the file may have for one of sacct's columns."""
        own = self.columns[name]
        return (own,) if isinstance(own, str) else own

    def renamed(self, header: Iterable[str], file: str) -> list[str]:
        """A header of the file in sacct's words; other columns keep their names.

        Raises:
            InputError: it lacks a column that tells when jobs ran.
        """
        names = [name.strip().strip('"') for name in header]
        missing = [name for name in ("JobID", "Start") if not set(self.own_names(name)).intersection(names)]
        if missing:
            wanted = " and ".join(" or ".join(self.own_names(name)) for name in missing)
            raise InputError(
                f"{file} has no column {wanted}, which --format names.",
                f"Its first line is {','.join(names)[:80]!r}: give the --format of its trace.",
            )
        return [self.sacct_name.get(name, name) for name in names]

    def settle(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Rows of the file, by role, with values that mean what sacct's do."""
        for name in self.columns:
            role = role_of(name)
            if role in rows.columns:
                rows = rows.with_columns(self._settled(name, role).cast(rows.schema[role]).alias(role))
        return rows

    def _settled(self, name: str, role: str) -> pl.Expr:
        value = pl.col(role).cast(pl.String).str.strip_chars()
        if role == "node_list":
            # A list of Python's: ['a', 'b'].
            value = (
                pl.when(value.str.starts_with("[")).then(value.str.replace_all(r"[\[\]'\" ]", "")).otherwise(value)
            )
        if words := self.words.get(name):
            value = value.replace(list(words), list(words.values()))
        if unit := self.units.get(name):
            value = _changed_number(value, lambda number: number / unit)
        if self.later_by_s and role in _TIMES:
            value = _changed_number(value, lambda number: number + self.later_by_s)
        if role == "tres":
            for number, resource in self.resources.items():
                value = value.str.replace_all(rf"(^|,){number}=", f"${{1}}{resource}=")
        if text := self.texts.get(name):
            before, mark, after = text.partition("{count}" if "{count}" in text else "{value}")
            inner = value if mark == "{value}" else (value.str.count_matches(",") + 1).cast(pl.String)
            value = pl.when(value != "").then(pl.lit(before) + inner + pl.lit(after)).otherwise(pl.lit(""))
        return value


NO_TRACE = Trace()
"""Trace of a file whose columns have sacct's names."""


def _changed_number(value: pl.Expr, change: Any) -> pl.Expr:
    number = change(value.cast(pl.Float64, strict=False))
    return pl.coalesce(number.cast(pl.String), value)


def trace_names() -> tuple[str, ...]:
    """The traces that are known by name."""
    return tuple(_known())


def find_trace(name: str) -> Trace:
    """A trace by its name, or by the user's file of it.

    Raises:
        InputError: there is neither, or the file is no description of a trace.
    """
    if name in _known():
        return Trace.model_validate(_known()[name])
    path = Path(name)
    if not path.suffix and not path.exists():
        raise InputError(
            f"There is no format {name!r}.", f"Give one of {', '.join(trace_names())}, or a file. {_SEE}"
        )
    return read_entry(Trace, path, "format file", _SEE)


def _known() -> Mapping[str, Any]:
    text = resources.files("freetrain.replay.logs").joinpath("traces.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


def with_sacct_header(pieces: Iterable[bytes], trace: Trace, file: str) -> Iterator[bytes]:
    """The text of a CSV file whose header is in sacct's words."""
    pieces = iter(pieces)
    first, newline, rest = next(pieces, b"").partition(b"\n")
    header = ",".join(trace.renamed(first.decode(errors="replace").lstrip("\ufeff").split(","), file))
    yield header.encode() + newline + rest
    yield from pieces


def is_json(data: bytes) -> bool:
    """Whether a text is JSON: it begins so, or messages stand before it."""
    head = data[:_HEAD_BYTES]
    if head.lstrip()[:1] in (b"{", b"["):
        return True
    # A job's submission may hold JSON, too.
    return (
        b'"jobs"' in head and _BEGINS_AS_JSON.search(head) is not None and next(find_headers(head), None) is None
    )


def rows_of_json(pieces: Iterable[bytes], trace: Trace, file: str) -> Iterator[bytes]:
    """The runs of a JSON text as rows of text, below a header in sacct's words; run n stands in line n + 1.

    In ``sacct --json`` numbers are plain (21.08) or say whether they are set (23.02 and later), states are words
    or lists of them. Several documents may follow one another, and jobs may stand alone, one a line.

    Raises:
        InputError: it is not JSON, or holds no jobs, or not as sacct prints them and the trace names no columns.
    """
    jobs = jobs_of_json(pieces, file)
    columns, runs = _SACCT_COLUMNS, _with_times(jobs, file)
    if trace.columns:
        columns = {name: partial(_leaves_text, trace.own_names(name)) for name in trace.columns}
        runs = (run for job in jobs for run in _runs(job, trace.rows))
    lines = chain(["|".join(columns)], ("|".join(read(run) for read in columns.values()) for run in runs))
    while some := list(islice(lines, _LINES_AT_ONCE)):
        # JSON may escape half a surrogate pair, which is no text.
        yield ("\n".join(some) + "\n").encode(errors="replace")


def _with_times(jobs: Iterable[Any], file: str) -> Iterator[Any]:
    has_jobs = have_times = False
    for job in jobs:
        has_jobs, have_times = True, have_times or isinstance(_value(job, "time"), dict)
        yield job
    if not has_jobs:
        raise InputError(
            f"{file} is JSON, but its list of jobs is empty.", "Run sacct with -a and the right -S and -E."
        )
    if not have_times:
        raise InputError(
            f"{file} is JSON, but its jobs have no times as sacct --json gives them.",
            "Give the output of `sacct --json` or `sacct -P`; squeue shows what runs now alone.",
        )


def _runs(job: Any, rows: str) -> Iterator[Any]:
    if not isinstance(job, dict) or not rows:
        yield job
        return
    listed = job.get(rows)
    for run in listed if isinstance(listed, list) else ():
        yield {**job, **run} if isinstance(run, dict) else job


def _leaves_text(paths: Iterable[str], record: Any) -> str:
    leaves = next(filter(None, (list(_leaves(record, path.split("."))) for path in paths)), [])
    return _BLANKED.sub(" ", ",".join(str(leaf) for leaf in leaves))


def _leaves(value: Any, path: list[str]) -> Iterator[Any]:
    if isinstance(value, list):
        for entry in value:
            yield from _leaves(entry, path)
    elif path:
        yield from _leaves(value.get(path[0]) if isinstance(value, dict) else None, path[1:])
    elif value is not None:
        yield json.dumps(value) if isinstance(value, dict) else value


def _resources(job: Any) -> Iterator[str]:
    """Resources that the job had, as ``AllocTRES`` says them; memory counts in MiB."""
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
    try:
        return _BLANKED.sub(" ", str(value))
    except ValueError:  # an integer of thousands of digits
        return "a number of thousands of digits"


def _at(*path: str) -> Callable[[Any], str]:
    return lambda job: _text(job, *path)


_SACCT_COLUMNS: Mapping[str, Callable[[Any], str]] = {
    "JobID": _at("job_id"),
    "Cluster": _at("cluster"),
    "Account": _at("account"),
    "Partition": _at("partition"),
    "State": _at("state", "current"),
    "Submit": _at("time", "submission"),
    # What has no times is no job that never started: it is not understood.
    "Start": lambda job: _text(job, "time", "start") if isinstance(_value(job, "time"), dict) else "not given",
    "End": _at("time", "end"),
    "ElapsedRaw": _at("time", "elapsed"),
    "Suspended": _at("time", "suspended"),
    "TimelimitRaw": _at("time", "limit"),
    "NNodes": lambda job: _text(job, "allocation_nodes") or _count_of(job, "node"),
    "NCPUS": lambda job: _count_of(job, "cpu") or _text(job, "required", "CPUs"),
    "NodeList": _at("nodes"),
    "AllocTRES": lambda job: ",".join(_resources(job)),
}
"""sacct's columns, and what a job of ``sacct --json`` has of each: empty where it says nothing; a time of 0 is one
that was not reached."""


def jobs_of_json(pieces: Iterable[bytes], name: str) -> Iterator[Any]:
    """The jobs of all documents of a text: of lists, of objects with a list ``jobs``, and jobs that stand alone.

    Messages may stand before the first document.

    Raises:
        InputError: it is not JSON, or has no list of jobs; what came before may be used up by then.
    """
    text = _Text(pieces, name)
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
    """A text of JSON, from its beginning on: it is gone through once, and what has been read is let go of."""

    def __init__(self, pieces: Iterable[bytes], name: str) -> None:
        self._pieces, self._name = iter(pieces), name
        self._decode = codecs.getincrementaldecoder("utf-8")(errors="replace").decode
        self._decoder = json.JSONDecoder()
        self._text, self._at, self._lines_before = "", 0, 0
        self._more()
        beginning = _BEGINNING.search(self._text)
        self._at = beginning.end() if beginning else 0

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
                is_at_end = error.pos >= len(self._text) - _LONGEST_MARK
                may_be_cut_off = is_at_end or error.msg.startswith("Unterminated string")
                if not may_be_cut_off or not self._more():
                    raise self._damaged(error.pos) from None
                continue
            except (ValueError, RecursionError):
                raise self._damaged(self._at) from None
            # A number that ends with the piece may go on in the next one.
            is_closed = self._text[end - 1] in '}]"'
            may_go_on = len(self._text) - end < _LONGEST_MARK and self._text[end : end + 1] in ("", *".eE+-")
            if is_closed or not may_go_on or not self._more():
                self._at = end
                return value

    def elements(self) -> Iterator[Any]:
        for _ in self._entries("[", "]"):
            yield self.value()

    def members(self) -> Iterator[str]:
        """Read an object key by key; the caller reads each key's value."""
        for _ in self._entries("{", "}"):
            if self.next_mark() != '"':
                raise self._damaged(self._at)
            key: str = self.value()
            self._read(":")
            yield key

    def _entries(self, opening: str, closing: str) -> Iterator[None]:
        """Go from entry to entry of a list or an object; the caller reads each."""
        self._read(opening)
        if self.next_mark() == closing:
            self._read(closing)
            return
        yield
        while self._read(f",{closing}") == ",":
            yield

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


def rows_of_parquet(path: Path, trace: Trace, file: str) -> Iterator[bytes]:
    """The rows of a Parquet file as text, below a header in sacct's words; row n stands in line n + 1.

    Raises:
        InputError: it is damaged.
    """
    try:
        frame = pl.scan_parquet(path)
        own = frame.collect_schema()
        header = trace.renamed(own.names(), file) if trace.columns else own.names()
        wanted = [name for name in own.names() if name in trace.sacct_name or not trace.columns]
        texts = frame.select(_text_of(pl.col(name), own[name]) for name in wanted)
        yield ("|".join(header[own.names().index(name)] for name in wanted) + "\n").encode()
        for at in range(0, frame.select(pl.len()).collect().item(), _ROWS_AT_ONCE):
            some = texts.slice(at, _ROWS_AT_ONCE).collect()
            yield some.write_csv(separator="|", include_header=False, quote_style="never").encode(errors="replace")
    # polars panics at some damaged files.
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as error:
        raise InputError(f"{file} is a Parquet file that cannot be read: {error}.", "Copy it again.") from None


def _text_of(column: pl.Expr, kind: pl.DataType) -> pl.Expr:
    if isinstance(kind, pl.List):
        column = column.cast(pl.List(pl.String)).list.join(",")
    elif isinstance(kind, pl.Datetime):
        in_utc = column.dt.convert_time_zone("UTC") if kind.time_zone else column
        column = in_utc.dt.to_string("%Y-%m-%dT%H:%M:%S" + ("+00:00" if kind.time_zone else ""))
    elif isinstance(kind, pl.Duration):
        column = column.dt.total_nanoseconds()
    return column.cast(pl.String).fill_null("").str.replace_all(_BLANKED.pattern, " ")
