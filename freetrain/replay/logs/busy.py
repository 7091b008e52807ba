"""Busy times of nodes: they have jobs, whatever kind of log shows it, or are out of service.

No job log shows the latter. When that was comes from two other commands of Slurm's, or at random with ``--mtbf``,
or it is seen by hours in which nearly the whole machine was idle: the site's jobs were probably not let on it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from freetrain.core.holes import SECONDS_PER_HOUR, Holes, find_holes, idle_until, taken
from freetrain.durations import show_duration
from freetrain.errors import InputError
from freetrain.replay.logs.machine import made_up
from freetrain.replay.logs.model import EmptyHours, Failures, ReadOptions
from freetrain.replay.logs.nodelists import NodeIndex, NodeListError, expand, read_node_lists
from freetrain.replay.logs.parsed import RowTally
from freetrain.replay.logs.sacct_text import column_names, column_positions
from freetrain.replay.logs.source import display_name, read_source
from freetrain.replay.logs.times import iso, parse_times
from freetrain.replay.logs.window import LogWindow, clock_hours
from freetrain.slurm.states import facts_of_state

_NUMBERS = re.compile(r"[\d,\-]+")
_ALIASES: Mapping[str, tuple[str, ...]] = {
    "nodes": ("nodelist", "nodes", "nodenames", "nodename"),
    "start": ("starttime", "start", "timestart"),
    "end": ("endtime", "end", "timeend"),
    "state": ("state",),
    "cluster": ("cluster",),
}
# Word by word: a pattern for a whole record would begin again at each letter of a damaged one.
_SHOWN = re.compile(r"\b(ReservationName|StartTime|EndTime|Nodes)=(\S*)")
_SHOWN_AS = {"StartTime": "start", "EndTime": "end", "Nodes": "nodes"}
_MAINTENANCE = "MAINT"
_SEED = 2023
_NEARLY_ALL = 0.95
_MAX_NAMED = 3


@dataclass(frozen=True, slots=True)
class BusyTimes:
    """Times at which nodes are busy, a row for each node and interval.

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

    def holes(self, window: LogWindow) -> Holes:
        """The holes: what busy times leave of a window."""
        at_s = self.start_s, self.end_s, window.from_s, window.until_s
        return find_holes(self.node_names, self.node, *at_s, self.interval)

    def lasts_s(self, from_s: float, until_s: float) -> NDArray[np.float64]:
        """Seconds that each interval lasts within a window, shape (intervals,)."""
        lasts_s: NDArray[np.float64] = self.end_s.clip(from_s, until_s) - self.start_s.clip(from_s, until_s)
        return lasts_s


def select_nodes(busy: BusyTimes, wanted: str, tally: RowTally) -> BusyTimes:
    """The chosen nodes alone (a node set, or ranges of numbers); what that leaves out is noted.

    Raises:
        InputError: if the text is no node set or none of its nodes is in the machine.
    """
    try:
        # A bare range set is no node set, but one in brackets is, of nodes whose names are numbers.
        names = set(expand(f"[{wanted}]" if _NUMBERS.fullmatch(wanted) else wanted))
    except NodeListError as error:
        raise InputError(
            f"--only-nodes cannot be read: {error}.", "Write it as 0-255, c[01-16] or c[01-16],gpu3."
        ) from None
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


def too_small(seen: int, total: int) -> InputError:
    """The error for a machine with fewer nodes than its log names."""
    return InputError(
        f"The log names {seen:,} nodes, but the machine has {total:,}.",
        f"Give at least --nodes {seen}, or choose nodes with --only-nodes.",
    )


_EventRow = Mapping[str, str]
"""A row of a file: its ``nodes``, and from ``start`` to ``end`` they were out of service."""


def take_out(busy: BusyTimes, window: LogWindow, options: ReadOptions, tally: RowTally) -> BusyTimes:
    """Count nodes as not idle while they were out of service, as far as files say when that was.

    Raises:
        InputError: a file cannot be read, or is not what Slurm prints.
    """
    for path, read, what in (
        (options.node_states, _read_node_states, "down or drained"),
        (options.reservations, _read_reservations, "reserved"),
    ):
        if path is not None:
            before = busy.holes(window).idle_node_hours
            busy, oddities = _with_outages(busy, list(read(path, options)), path, options.timezone)
            gone = before - busy.holes(window).idle_node_hours
            tally.notes.append(
                f"{gone:,.1f} node-hours without jobs are not idle: the nodes were {what} ({path.name})."
            )
            tally.notes += oddities
    if options.node_states is None:
        tally.notes.append(
            "Job logs do not show which nodes were down or drained: those look idle; "
            "--node-states reads `sacctmgr show event -P`, which does."
        )
    return busy


def _read_node_states(path: Path, options: ReadOptions) -> Iterator[_EventRow]:
    """Events of nodes; powered-down nodes are idle ones that save power."""
    for row in _rows(path, options, "sacctmgr show event -P"):
        state = row.get("state", "").upper()
        if _MAINTENANCE in state or not facts_of_state(state)["starts_jobs"]:
            yield row


def _read_reservations(path: Path, options: ReadOptions) -> Iterator[_EventRow]:
    """Reservations, as sacctmgr or scontrol prints them."""
    text = read_source(path).decode(errors="replace")
    if "ReservationName=" in text:
        for record in re.split(r"(?=ReservationName=)", text):
            # The first of each counts: a comment comes last.
            shown = {_SHOWN_AS.get(name, name): value for name, value in reversed(_SHOWN.findall(record))}
            # Reservations of licences alone name no nodes.
            if shown.keys() >= set(_SHOWN_AS.values()) and shown["nodes"] not in ("", "(null)"):
                yield shown
        return
    yield from _rows(path, options, "sacctmgr show reservation -P format=Cluster,NodeNames,Start,End")


def _rows(path: Path, options: ReadOptions, command: str) -> Iterator[_EventRow]:
    """Rows about nodes of the cluster that is asked for; events of whole clusters name no nodes."""
    lines = [line for line in read_source(path).decode(errors="replace").split("\n") if line.strip()]
    names = column_names(lines[0].split("|")) if lines else ()
    columns = column_positions(names, _ALIASES)
    if any(role not in columns for role in ("nodes", "start", "end")):
        raise InputError(
            f"{display_name(path)} does not say when nodes were out of service: it lacks nodes, start or end.",
            f"Give the output of `{command}`.",
        )
    last = max(columns.values())
    for line in lines[1:]:
        cells = [cell.strip() for cell in line.split("|")]
        # A reason may hold pipes or go on in the next line; it stands behind all that is needed.
        if len(cells) > last:
            row = {role: cells[column] for role, column in columns.items()}
            if row["nodes"] and (options.cluster is None or row.get("cluster", "") in ("", options.cluster)):
                yield row


def _with_outages(
    busy: BusyTimes, outages: Sequence[_EventRow], path: Path, timezone: str
) -> tuple[BusyTimes, list[str]]:
    """The busy times with the outages of a file, and what is odd about these."""
    start_s, end_s = (
        parse_times(pl.Series([row[role] for row in outages], dtype=pl.String), timezone)
        for role in ("start", "end")
    )
    # One without an end has not ended.
    from_s, until_s = start_s.to_numpy(), end_s.fill_null(float("inf")).to_numpy()
    machine_nodes = len(busy.node_names)
    # Not closed: names that the machine lacks get positions behind it, and are counted as strangers.
    index = NodeIndex(busy.node_names)
    lists = read_node_lists((row["nodes"] for row in outages), index)
    sound = from_s <= until_s
    sound[list(lists.bad)] = False
    bad, rows = int((~sound).sum()), len(outages)
    if 2 * bad > rows:
        raise InputError(
            f"{display_name(path)}: {bad:,} of {rows:,} rows name no nodes, or no time from which on they "
            "were out of service.",
            "Look whether its columns are right, and its times as SLURM_TIME_FORMAT=standard prints them.",
        )
    row = np.repeat(np.arange(rows), np.diff(lists.begin))
    known = sound[row] & (lists.node < machine_nodes)
    longer = busy.and_also(lists.node[known], from_s[row[known]], until_s[row[known]])
    strangers, notes = list(index.position)[machine_nodes:], []
    if bad:
        notes.append(f"{path.name} has {bad:,} row{'s' * (bad != 1)} that could not be understood.")
    if strangers:
        nodes = f"{len(strangers):,} node{'s' * (len(strangers) != 1)}"
        notes.append(f"{path.name} names {nodes} that the machine does not have (such as {min(strangers)}).")
    return longer, notes


def with_failures(busy: BusyTimes, window: LogWindow, failures: Failures, tally: RowTally) -> BusyTimes:
    """Let nodes fail, at the same instants each time, and note what that takes.

    Only idle time counts: what became of jobs the log says, and a node that failed with one is not idle.
    """
    holes = busy.holes(window)
    upto_s = np.cumsum(holes.length_s)
    idle_s = float(upto_s[-1]) if len(holes) else 0.0
    # A fixed seed: in each replay of a log nodes fail at the same instants.
    chance = np.random.default_rng(_SEED)
    at_s = np.sort(chance.uniform(0.0, idle_s, chance.poisson(idle_s / failures.every_s)))
    hole = np.searchsorted(upto_s, at_s, side="right").clip(max=max(len(holes) - 1, 0))
    start_s = holes.end_s[hole] - (upto_s[hole] - at_s)
    failing = busy.and_also(holes.node[hole], start_s, start_s + failures.repair_s)
    gone = holes.idle_node_hours - failing.holes(window).idle_node_hours
    times = f"{len(at_s):,} time{'s' * (len(at_s) != 1)}"
    every, repair = show_duration(failures.every_s), show_duration(failures.repair_s)
    tally.notes.append(
        f"Idle nodes failed at random {times}, each once in {every} of idle time and for {repair} (--mtbf, "
        f"--repair): {gone:,.1f} node-hours are not idle for that."
    )
    return failing


def find_empty_hours(machine: Holes, holes: Holes) -> EmptyHours | None:
    """The clock hours in which 95 % of the machine or more was idle; None if ``holes`` have no idle time then."""
    edges_s = clock_hours(machine.from_s, machine.until_s)
    empty = np.diff(idle_until(machine, edges_s)) >= _NEARLY_ALL * len(machine.node_names) * np.diff(edges_s)
    # Neighbouring empty hours are one stretch.
    begins = np.flatnonzero(empty & ~np.append(False, empty[:-1]))
    ends = np.flatnonzero(empty & ~np.append(empty[1:], False)) + 1
    # At the window's ends stand parts of hours, which say little.
    lasting = edges_s[ends] - edges_s[begins] >= SECONDS_PER_HOUR
    begins, ends = begins[lasting], ends[lasting]
    until_edge_s = idle_until(holes, edges_s)
    idle_s = float((until_edge_s[ends] - until_edge_s[begins]).sum())
    if not idle_s > 0:
        return None
    return EmptyHours(edges_s[begins], edges_s[ends], idle_s / SECONDS_PER_HOUR, holes.idle_node_hours)


def closed_in_hours(busy: BusyTimes, hours: EmptyHours) -> BusyTimes:
    """The busy times, and behind them these hours on every node, as if it were out of service then."""
    nodes, times = len(busy.node_names), len(hours.from_s)
    everywhere = np.tile(np.arange(nodes, dtype=np.int32), times)
    return busy.and_also(everywhere, np.repeat(hours.from_s, nodes), np.repeat(hours.until_s, nodes))


def about_empty_hours(hours: EmptyHours) -> str:
    """Note on what empty hours mean, in a sentence or two."""
    spans = [
        f"{iso(begin)} to {iso(end)}"
        for begin, end in zip(hours.from_s[:_MAX_NAMED], hours.until_s[:_MAX_NAMED], strict=True)
    ]
    more = f" and {len(hours.from_s) - _MAX_NAMED:,} times more" if len(hours.from_s) > _MAX_NAMED else ""
    rest = hours.all_idle_node_hours - hours.idle_node_hours
    what = (
        f"At least 95 % of the machine was idle for {hours.hours:,.1f} hours ({'; '.join(spans)}{more}), as in "
        f"maintenance: {hours.idle_node_hours:,.0f} node-hours, {100 * hours.share:.0f} % of all idle time."
    )
    if hours.left_out:
        return f"{what} They are left out; with them, {hours.all_idle_node_hours:,.0f} node-hours are idle."
    return f"{what} Without them {rest:,.0f} are left; --skip-empty-hours leaves them out."
