"""Logs whose columns have names of their own, as public traces: what sacct calls them, and what their values mean.

A trace is a table of ``traces.toml``, or a file of the user's with the same keys. Its files may be CSV, JSON or
Parquet. Their text gets a header in sacct's words, and is read as sacct's is; values are put into sacct's words by
whole columns, before anything else is done with them.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from importlib import resources
from itertools import chain
from pathlib import Path
from typing import Any

import polars as pl
from pydantic import BaseModel, ConfigDict

from freetrain.errors import InputError
from freetrain.replay.logs.sacct_json import BLANKED, in_pieces, jobs_of_json
from freetrain.replay.logs.sacct_text import role_of
from freetrain.replay.logs.toml_files import checked, read_toml

PARQUET = b"PAR1"
_ROWS_AT_ONCE = 1 << 16
_SEE = "docs/reference/logs.md tells its keys."
_TIMES = ("submit", "start", "end")


class Trace(BaseModel):
    """How the files of a trace are read.

    Attributes:
        columns: sacct's name of a column → the file's, or several of which it has one. In JSON the path to the
            value, with dots; what lies in lists on the way is put together with commas.
        header: the columns of a CSV file without a header.
        rows: in JSON: the list within a job whose entries are runs of their own.
        texts: sacct's name → text around each value: ``{value}``, or ``{count}`` of the values between commas.
        words: sacct's name → the file's word → sacct's.
        resources: names of resources in AllocTRES, as numbers in Slurm's database → sacct's.
        units: sacct's name → how many of the file's units are one of sacct's.
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
        """What the file may call one of sacct's columns."""
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
"""The columns have sacct's names."""


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
    return checked(Trace, read_toml(path, "format file", _SEE), f"The format file {path}", _SEE)


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


def rows_of_trace_json(pieces: Iterable[bytes], trace: Trace, file: str) -> Iterator[bytes]:
    """The runs of a JSON text as rows of text, below a header in sacct's words; run n stands in line n + 1."""
    runs = (run for job in jobs_of_json(pieces, file) for run in _runs(job, trace.rows))
    lines = ("|".join(_leaves_text(run, trace.own_names(name)) for name in trace.columns) for run in runs)
    return in_pieces(chain(["|".join(trace.columns)], lines))


def _runs(job: Any, rows: str) -> Iterator[Any]:
    if not isinstance(job, dict) or not rows:
        yield job
        return
    listed = job.get(rows)
    for run in listed if isinstance(listed, list) else ():
        yield {**job, **run} if isinstance(run, dict) else job


def _leaves_text(record: Any, paths: Iterable[str]) -> str:
    leaves = next(filter(None, (list(_leaves(record, path.split("."))) for path in paths)), [])
    return BLANKED.sub(" ", ",".join(str(leaf) for leaf in leaves))


def _leaves(value: Any, path: list[str]) -> Iterator[Any]:
    if isinstance(value, list):
        for entry in value:
            yield from _leaves(entry, path)
    elif path:
        yield from _leaves(value.get(path[0]) if isinstance(value, dict) else None, path[1:])
    elif value is not None:
        yield json.dumps(value) if isinstance(value, dict) else value


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
    return column.cast(pl.String).fill_null("").str.replace_all(BLANKED.pattern, " ")
