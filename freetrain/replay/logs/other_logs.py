"""Logs of other systems: the Standard Workload Format of the Parallel Workloads Archive, and events of nodes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

import numpy as np
import polars as pl

from freetrain.replay.logs.busy import BusyTimes
from freetrain.replay.logs.machine import LoggedMachine, uniform_machine
from freetrain.replay.logs.nodelists import MAX_NODES
from freetrain.replay.logs.parsed import (
    MAX_COUNTED,
    RUN_SCHEMA,
    ParsedFile,
    RowTally,
    as_runs,
    rows_of_width,
    seen,
    sort_out,
)
from freetrain.replay.logs.rows import split_lines
from freetrain.replay.logs.source import is_event_header
from freetrain.replay.logs.times import LATEST_S, parse_times

_FIELDS = 18
_COLUMNS = {
    "job": 0,
    "submit": 1,
    "wait": 2,
    "run": 3,
    "got": 4,
    "asked": 7,
    "limit": 8,
    "status": 10,
    "partition": 15,
}
# SWF's status codes of partial executions, which another row of the job sums up.
_PARTIAL = (2.0, 3.0, 4.0)
_HEADER = re.compile(r"^;\s*(\w+):\s*(-?\d{1,18})\b")
_MAX_CORES = 100_000


def read_swf(pieces: Iterable[bytes], file: int, tally: RowTally) -> ParsedFile:
    """Read one SWF file; each piece of its text ends at the end of a line."""
    header, waiting = dict[str, int](), list[pl.DataFrame]()
    lines_before = 0
    for piece in pieces:
        # One blank between fields makes SWF a delimited file like the others; lines stay where they are.
        lines = split_lines(re.sub(rb"(?m)^[ \t]+|[ \t]+$", b"", re.sub(rb"[ \t]+", b" ", piece)), " ")
        characters = np.frombuffer(lines.data, np.uint8)
        is_comment = characters[np.minimum(lines.start, max(len(characters) - 1, 0))] == ord(";")
        for line in np.flatnonzero(is_comment).tolist():
            if match := _HEADER.match(lines.text(line)):
                header.setdefault(match[1], int(match[2]))
        body = np.flatnonzero((lines.end > lines.start) & ~is_comment)
        rows = rows_of_width(lines, body, _FIELDS, "SWF", _COLUMNS, (file, lines_before), tally)
        numbers = (name for name in _COLUMNS if name not in ("job", "partition"))
        waiting.append(rows.with_columns(pl.col(name).cast(pl.Float64, strict=False) for name in numbers))
        lines_before += piece.count(b"\n")
    begin_s = float(header.get("UnixStartTime", 0))
    if not 0 < begin_s <= LATEST_S:
        tally.notes.append("The SWF header has no UnixStartTime that is a time: times count from 1970-01-01.")
        begin_s = 0.0
    # Of rows whose times are known now, only what is kept of a log's rows stays.
    waiting.reverse()
    runs, unused = [], []
    while waiting:
        sound, ignored = _sorted_out(_timed(waiting.pop(), begin_s), tally)
        unused.append(seen(ignored))
        runs.append(as_runs(sound))
    machine = _machine(header)
    if machine is None and {"MaxNodes", "MaxProcs"} & header.keys():
        tally.notes.append("What the SWF header says of MaxNodes and MaxProcs is no machine.")
    return ParsedFile(runs, pl.concat(unused), machine)


def _timed(rows: pl.DataFrame, begin_s: float) -> pl.DataFrame:
    started = pl.when(pl.col("wait") >= 0).then(begin_s + pl.col("submit") + pl.col("wait"))
    cores = pl.when(pl.col("got") > 0).then(pl.col("got")).otherwise(pl.col("asked"))
    return rows.with_columns(
        (begin_s + pl.col("submit")).alias("submit_s"),
        started.alias("start_s"),
        pl.when(pl.col("run") >= 0).then(started + pl.col("run")).alias("end_s"),
        pl.when(pl.col("limit") > 0).then(pl.col("limit")).otherwise(float("inf")).alias("limit_s"),
        pl.lit(None, pl.Int64).alias("nodes"),
        cores.cast(pl.Int64, strict=False).alias("cores"),
        pl.lit(None, pl.Float64).alias("memory_bytes"),
        pl.lit(None, pl.Int64).alias("gpus"),
        pl.lit("").alias("gpu_types"),
        pl.lit("").alias("node_list"),
    )


def _sorted_out(rows: pl.DataFrame, tally: RowTally) -> tuple[pl.DataFrame, pl.DataFrame]:
    needed = [name for name in _COLUMNS if name not in ("job", "partition", "limit")]
    unread = pl.any_horizontal(pl.col(name).is_null() | ~pl.col(name).is_finite() for name in needed)
    return sort_out(
        rows,
        tally,
        [*RUN_SCHEMA],
        ignored=[
            (~unread & pl.col("status").is_in(_PARTIAL), "part of a job that another row sums up"),
            (~unread & (pl.col("wait") < 0), "never started"),
            (~unread & (pl.col("run") < 0), "run time unknown"),
            (~unread & (pl.col("run") == 0), "ended when it started"),
        ],
        bad=[
            (unread, "has a field that is not a number"),
            (~(pl.max_horizontal("submit_s", "start_s", "end_s") <= LATEST_S), "has a time after the year 2100"),
            (~pl.col("cores").is_between(1, MAX_COUNTED).fill_null(False), "has no number of processors"),
        ],
    )


def _machine(header: Mapping[str, int]) -> LoggedMachine | None:
    """The machine; None if the header does not say, or says what no machine is like."""
    cores = header.get("MaxProcs", 0)
    nodes = header.get("MaxNodes", 0)
    nodes = nodes if nodes > 0 else cores
    each = max(1, -(-cores // nodes)) if nodes > 0 else 1
    if not (0 < nodes <= MAX_NODES and each <= _MAX_CORES):
        return None
    return uniform_machine("the log's header", nodes, each)


_KEPT = ("file", "line", "t_s", "node", "is_idle")
_STATES = {"1": True, "0": False, "true": True, "false": False}


def read_node_events(pieces: Iterable[bytes], file: int, timezone: str, tally: RowTally) -> pl.DataFrame:
    """The events of one file: columns file, line, t_s, node, idle; rows in the file's order.

    Each piece of its text ends at the end of a line, and the header is in the first.
    """
    names: list[str] = []
    events, lines_before = [], 0
    for piece in pieces:
        lines = split_lines(piece, ",")
        begin = 0
        if not names:
            header = next(line for line in range(len(lines)) if is_event_header(lines.text(line)))
            names = [name.strip().lower() for name in lines.text(header).split(",")]
            begin = header + 1
            before = sum(bool(lines.text(line).strip()) for line in range(header))
            tally.read += before
            tally.ignore("before the header", before)
        body = np.arange(begin, len(lines), dtype=np.int64)
        body = body[lines.end[body] > lines.start[body]]
        columns = {name: names.index(name) for name in ("t", "node", "idle")}
        place = file, lines_before
        rows = rows_of_width(lines, body, len(names), "the header", columns, place, tally)
        events.append(_sound_events(rows, timezone, tally))
        lines_before += piece.count(b"\n")
    return pl.concat(events)


def _sound_events(rows: pl.DataFrame, timezone: str, tally: RowTally) -> pl.DataFrame:
    # A plain number is a time here, zero among them: simulated logs begin there.
    number_s = rows["t"].str.strip_chars().cast(pl.Float64, strict=False)
    written_s = parse_times(
        pl.select(pl.when(number_s.is_null()).then(rows["t"])).to_series().fill_null(""), timezone
    )
    typed = rows.with_columns(
        pl.select(pl.coalesce(number_s, written_s)).to_series().alias("t_s"),
        pl.col("node").str.strip_chars(),
        pl.col("idle").str.strip_chars().str.to_lowercase().replace_strict(_STATES, default=None).alias("is_idle"),
    )
    sound, _ = sort_out(
        typed,
        tally,
        _KEPT,
        ignored=[(pl.col("t").str.to_lowercase().str.strip_chars() == "t", "repeated header")],
        bad=[
            (~(pl.col("t_s").abs() <= LATEST_S).fill_null(False), pl.format("t '{}' is not a time", "t")),
            (pl.col("node") == "", "names no node"),
            (pl.col("is_idle").is_null(), pl.format("idle '{}' is neither 0 nor 1", "idle")),
        ],
    )
    return sound


def busy_times(events: pl.DataFrame, tally: RowTally) -> BusyTimes:
    """Busy times of nodes; a node's state before its first event is the opposite of what that event says."""
    names, node = np.unique(events["node"].to_numpy().astype(str), return_inverse=True)
    t_s, idle = events["t_s"].to_numpy(), events["is_idle"].to_numpy()
    # Stable: of events at the same time, the later row is the later change.
    order = np.lexsort((t_s, node))
    node, t_s, idle = node[order].astype(np.int32), t_s[order], idle[order]
    first = np.append(True, node[1:] != node[:-1])
    change = first | np.append(True, idle[1:] != idle[:-1])
    tally.ignore("repeats the node's state", int((~change).sum()))
    node, t_s, idle, first = node[change], t_s[change], idle[change], first[change]
    last = np.append(first[1:], True)
    opening = first & idle
    begin = np.where(opening, -np.inf, t_s)
    end = np.where(last, np.inf, np.append(t_s[1:], np.inf))
    # From each change to busy to the node's next event; and before a first change to idle.
    starts = np.concatenate([begin[~idle], begin[opening]])
    ends = np.concatenate([end[~idle], t_s[opening]])
    nodes = np.concatenate([node[~idle], node[opening]])
    lasting = ends > starts
    each = np.arange(lasting.sum(), dtype=np.int32)
    return BusyTimes(tuple(names.tolist()), nodes[lasting], each, starts[lasting], ends[lasting])
