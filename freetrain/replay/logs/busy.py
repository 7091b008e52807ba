"""When nodes are busy, whatever kind of log shows it; some of the machine's nodes, or more than the log names."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
import polars as pl
from numpy.typing import NDArray

from freetrain.core.holes import Holes, find_holes, taken
from freetrain.errors import InputError
from freetrain.replay.logs.machine import made_up
from freetrain.replay.logs.nodelists import NodeListError, expand
from freetrain.replay.logs.parsed import RowTally, rows_of_width, sort_out
from freetrain.replay.logs.rows import split_lines
from freetrain.replay.logs.source import is_event_header
from freetrain.replay.logs.times import LATEST_S, parse_times

_NUMBERS = re.compile(r"[\d,\-]+")


@dataclass(frozen=True, slots=True)
class BusyTimes:
    """When nodes are busy, a row for each node and interval.

    A job keeps all of its nodes busy for the same interval, so intervals stand beside the rows and not in them.

    Attributes:
        node: position in ``node_names``, shape (rows,).
        interval: position in ``start_s`` and ``end_s``, shape (rows,).
        start_s: start of each interval; -inf where a node is busy from the first; shape (intervals,).
    """

    node_names: tuple[str, ...]
    node: NDArray[np.int32]
    interval: NDArray[np.int32]
    start_s: NDArray[np.float64]
    end_s: NDArray[np.float64]

    def and_also(
        self, node: NDArray[np.int32], start_s: NDArray[np.float64], end_s: NDArray[np.float64]
    ) -> BusyTimes:
        """These busy times, and behind them rows with an interval each."""
        more = np.arange(len(self.start_s), len(self.start_s) + len(node), dtype=np.int32)
        return BusyTimes(
            self.node_names,
            np.concatenate([self.node, node]),
            np.concatenate([self.interval, more]),
            np.concatenate([self.start_s, start_s]),
            np.concatenate([self.end_s, end_s]),
        )

    def holes(self, from_s: float, until_s: float) -> Holes:
        """The holes: what busy times leave of a window."""
        return find_holes(self.node_names, self.node, self.start_s, self.end_s, from_s, until_s, self.interval)


def select_nodes(busy: BusyTimes, wanted: str, tally: RowTally) -> BusyTimes:
    """The chosen nodes alone (a node set, or ranges of numbers); what that leaves out is noted.

    Raises:
        InputError: if the text is no node set or none of its nodes is in the machine.
    """
    names = set(_wanted_names(wanted))
    keep = np.array([name in names for name in busy.node_names], bool)
    found = int(keep.sum())
    if not found:
        raise InputError(
            f"--only-nodes {wanted} names no node of the machine.",
            f"Its {len(busy.node_names):,} nodes are named like {busy.node_names[0]} and {busy.node_names[-1]}.",
        )
    number = np.cumsum(keep, dtype=np.int32) - 1
    rows = taken(keep, busy.node)
    kept = tuple(name for name in busy.node_names if name in names)
    tally.notes.append(
        f"Only {found:,} of the machine's {len(busy.node_names):,} nodes are looked at (--only-nodes {wanted})."
    )
    if found < len(names):
        tally.notes.append(f"{len(names) - found:,} of the nodes asked for are not in the machine.")
    return replace(busy, node_names=kept, node=taken(number, busy.node[rows]), interval=busy.interval[rows])


def add_always_busy(busy: BusyTimes, total: int | None, tally: RowTally) -> BusyTimes:
    """Fill a machine known from node events up to its number of nodes: a node without event never became idle."""
    seen = len(busy.node_names)
    if total is None:
        tally.notes.append(
            f"The machine is taken to be the {seen:,} nodes with events; one without never became idle."
        )
    if total is None or total == seen:
        return busy
    if total < seen:
        raise too_small(seen, total)
    more = total - seen
    unseen = np.arange(seen, total, dtype=np.int32)
    tally.notes.append(f"{more:,} of the machine's {total:,} nodes have no events and count as busy all the time.")
    return replace(
        busy.and_also(unseen, np.full(more, -np.inf), np.full(more, np.inf)),
        node_names=(*busy.node_names, *made_up("unseen", more)),
    )


def _wanted_names(wanted: str) -> list[str]:
    numeric = _NUMBERS.fullmatch(wanted) is not None
    try:
        # A bare range set is no node set, but one in brackets is, of nodes whose names are numbers.
        return expand(f"[{wanted}]" if numeric else wanted)
    except NodeListError as error:
        raise InputError(
            f"--only-nodes cannot be read: {error}.", "Write it as 0-255, c[01-16] or c[01-16],gpu3."
        ) from None


def too_small(seen: int, total: int) -> InputError:
    """The error for a machine with fewer nodes than its log names."""
    return InputError(
        f"The log names {seen:,} nodes, but the machine has {total:,}.",
        f"Give at least --nodes {seen}, or choose nodes with --only-nodes.",
    )


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
        events.append(_sound(_typed(rows, timezone), tally))
        lines_before += piece.count(b"\n")
    return pl.concat(events)


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
    each = np.arange(lasting.sum(), dtype=np.int32)
    return BusyTimes(tuple(names.tolist()), nodes[lasting], each, starts[lasting], ends[lasting])


def _sound(rows: pl.DataFrame, tally: RowTally) -> pl.DataFrame:
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
