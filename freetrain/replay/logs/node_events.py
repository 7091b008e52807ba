"""Node events: CSV with the columns t, node, idle, one row per change of a node's state."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import polars as pl

from freetrain.replay.logs.busy import BusyTimes, busy_one_by_one
from freetrain.replay.logs.rows import Lines, read_fields, split_lines
from freetrain.replay.logs.source import is_event_header
from freetrain.replay.logs.tally import RowTally, sort_out
from freetrain.replay.logs.times import LATEST_S, parse_times

_KEPT = ("file", "line", "t_s", "node", "is_idle")
_STATES = {"1": True, "0": False, "true": True, "false": False}


def read_node_events(pieces: Iterable[bytes], file: int, timezone: str, tally: RowTally) -> pl.DataFrame:
    """The events of one file: columns file, line, t_s, node, idle; rows in the file's order.

    Args:
        pieces: its text; each piece ends at the end of a line, and the header is in the first.
        file: its number among the files read.
        timezone: zone of times without offset.
        tally: counts its rows.
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
        rows = _rows(lines, begin, names, file, lines_before, tally)
        events.append(_sound(_typed(rows, timezone), tally))
        lines_before += piece.count(b"\n")
    return pl.concat(events)


def _rows(
    lines: Lines, begin: int, names: Sequence[str], file: int, lines_before: int, tally: RowTally
) -> pl.DataFrame:
    """The rows of a piece as text.

    Args:
        lines: the piece's lines.
        begin: the first that may be a row.
        names: the columns.
        file: the file's number.
        lines_before: lines of the file before the piece.
        tally: counts the rows.
    """
    body = np.arange(begin, len(lines), dtype=np.int64)
    body = body[lines.end[body] > lines.start[body]]
    sound = lines.separators[body] == len(names) - 1
    tally.read += len(body)
    tally.reject(
        (
            file,
            lines_before + line + 1,
            f"has {lines.separators[line] + 1} fields where the header has {len(names)}",
        )
        for line in body[~sound].tolist()
    )
    rows = read_fields(
        lines, body[sound], {name: names.index(name) for name in ("t", "node", "idle")}, lines_before
    )
    return rows.with_columns(pl.lit(file, pl.Int32).alias("file"))


def _typed(rows: pl.DataFrame, timezone: str) -> pl.DataFrame:
    # A plain number is a time here, zero among them: simulated logs begin there.
    number_s = rows["t"].str.strip_chars().cast(pl.Float64, strict=False)
    written_s = parse_times(
        pl.select(pl.when(number_s.is_null()).then(rows["t"])).to_series().fill_null(""), timezone
    )
    return rows.with_columns(
        pl.select(pl.coalesce(number_s, written_s)).to_series().alias("t_s"),
        pl.col("node").str.strip_chars(),
        pl.col("idle").str.strip_chars().str.to_lowercase().replace_strict(_STATES, default=None).alias("is_idle"),
    )


def busy_times(events: pl.DataFrame, tally: RowTally) -> BusyTimes:
    """When nodes are busy; a node's state before its first event is the opposite of what that event says."""
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
    return busy_one_by_one(tuple(names.tolist()), nodes[lasting], starts[lasting], ends[lasting])


def _sound(rows: pl.DataFrame, tally: RowTally) -> pl.DataFrame:
    """The rows that can be used; the others are counted."""
    sound, _ = sort_out(
        rows,
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
