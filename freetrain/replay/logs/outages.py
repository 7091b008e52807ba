"""When nodes were down, drained or reserved: what no job log shows, from two other commands of Slurm's."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import polars as pl

from freetrain.errors import InputError
from freetrain.replay.logs.busy import BusyTimes
from freetrain.replay.logs.headers import column_names
from freetrain.replay.logs.model import ReadOptions
from freetrain.replay.logs.nodelists import NodeIndex, NodeListError
from freetrain.replay.logs.source import display_name, read_source
from freetrain.replay.logs.times import parse_times
from freetrain.replay.logs.window import Window
from freetrain.slurm.states import facts_of_state

_ALIASES: Mapping[str, tuple[str, ...]] = {
    "nodes": ("nodename", "nodenames", "nodes", "nodelist"),
    "start": ("timestart", "start", "starttime"),
    "end": ("timeend", "end", "endtime"),
    "state": ("state",),
    "cluster": ("cluster",),
}
_SHOWN = re.compile(
    r"ReservationName=\S+.*?\bStartTime=(?P<start>\S+)\s+EndTime=(?P<end>\S+).*?\bNodes=(?P<nodes>\S*)", re.DOTALL
)
_MAINTENANCE = "MAINT"


@dataclass(slots=True)
class _Outages:
    """Rows of one file: nodes, and from when to when they were out of service."""

    nodes: list[str] = field(default_factory=list)
    start: list[str] = field(default_factory=list)
    end: list[str] = field(default_factory=list)

    def add(self, row: Mapping[str, str]) -> None:
        self.nodes.append(row["nodes"])
        self.start.append(row["start"])
        self.end.append(row["end"])


def take_out(busy: BusyTimes, window: Window, options: ReadOptions) -> tuple[BusyTimes, list[str]]:
    """Count nodes as not idle while they were out of service, as far as files say when that was.

    Raises:
        InputError: a file cannot be read, or is not what Slurm prints.
    """
    notes = []
    for path, read, what in (
        (options.node_states, _read_node_states, "down or drained"),
        (options.reservations, _read_reservations, "reserved"),
    ):
        if path is not None:
            before = _idle_node_hours(busy, window)
            busy, unknown = _with_outages(busy, read(path, options), path, options.timezone)
            gone = before - _idle_node_hours(busy, window)
            notes.append(f"{gone:,.1f} node-hours without jobs are not idle: the nodes were {what} ({path.name}).")
            notes += unknown
    if options.node_states is None:
        notes.append(
            "Job logs do not show which nodes were down or drained: those look idle; "
            "--node-states reads `sacctmgr show event -P`, which does."
        )
    return busy, notes


def _read_node_states(path: Path, options: ReadOptions) -> _Outages:
    """Events of nodes; those of whole clusters name none, and powered-down nodes are idle ones that save power."""
    outages = _Outages()
    for row in _rows(path, "sacctmgr show event -P"):
        state = row.get("state", "").upper()
        out = _MAINTENANCE in state or not facts_of_state(state)["starts_jobs"]
        if row["nodes"] and out and _is_of_cluster(row, options):
            outages.add(row)
    return outages


def _read_reservations(path: Path, options: ReadOptions) -> _Outages:
    """Reservations, as sacctmgr or scontrol prints them."""
    outages = _Outages()
    text = read_source(path).decode(errors="replace")
    if "ReservationName=" in text:
        for record in re.split(r"(?=ReservationName=)", text):
            shown = _SHOWN.match(record)
            # Reservations of licences alone name no nodes.
            if shown and shown["nodes"] not in ("", "(null)"):
                outages.add(shown.groupdict())
        return outages
    for row in _rows(path, "sacctmgr show reservation -P format=Cluster,NodeNames,Start,End"):
        if row["nodes"] and _is_of_cluster(row, options):
            outages.add(row)
    return outages


def _is_of_cluster(row: Mapping[str, str], options: ReadOptions) -> bool:
    return options.cluster is None or row.get("cluster", "") in ("", options.cluster)


def _rows(path: Path, command: str) -> Iterator[dict[str, str]]:
    lines = [line for line in read_source(path).decode(errors="replace").split("\n") if line.strip()]
    names = column_names(lines[0].split("|")) if lines else ()
    columns = {
        role: names.index(alias) for role, aliases in _ALIASES.items() for alias in aliases if alias in names
    }
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
            yield {role: cells[column] for role, column in columns.items()}


def _with_outages(busy: BusyTimes, outages: _Outages, path: Path, timezone: str) -> tuple[BusyTimes, list[str]]:
    start_s = parse_times(pl.Series(outages.start, dtype=pl.String), timezone).to_numpy()
    end_s = parse_times(pl.Series(outages.end, dtype=pl.String), timezone)
    # One without an end has not ended.
    until_s = end_s.fill_null(float("inf")).to_numpy()
    machine_nodes = len(busy.node_names)
    index = NodeIndex(busy.node_names)
    named = {text: _positions(text, index) for text in set(outages.nodes)}
    sound = [
        number
        for number, text in enumerate(outages.nodes)
        if named[text] is not None and start_s[number] <= until_s[number]
    ]
    _refuse_if_mostly_bad(len(outages.nodes) - len(sound), len(outages.nodes), path)
    known = {text: [one for one in found or () if one < machine_nodes] for text, found in named.items()}
    node = [one for number in sound for one in known[outages.nodes[number]]]
    row = [number for number in sound for _ in known[outages.nodes[number]]]
    longer = busy.and_also(np.array(node, np.int32), start_s[row], until_s[row])
    strangers = list(index.position)[machine_nodes:]
    return longer, _oddities(path.name, len(outages.nodes) - len(sound), strangers)


def _oddities(name: str, bad: int, strangers: list[str]) -> list[str]:
    notes = []
    if bad:
        notes.append(f"{name} has {bad:,} row{'s' * (bad != 1)} that could not be understood.")
    if strangers:
        nodes = f"{len(strangers):,} node{'s' * (len(strangers) != 1)}"
        notes.append(f"{name} names {nodes} that the machine does not have (such as {min(strangers)}).")
    return notes


def _positions(text: str, index: NodeIndex) -> Sequence[int] | None:
    try:
        return index.positions(text)
    except NodeListError:
        return None


def _refuse_if_mostly_bad(bad: int, rows: int, path: Path) -> None:
    if 2 * bad > rows:
        raise InputError(
            f"{display_name(path)}: {bad:,} of {rows:,} rows name no nodes, or no time from which on they "
            "were out of service.",
            "Look whether its columns are right, and its times as SLURM_TIME_FORMAT=standard prints them.",
        )


def _idle_node_hours(busy: BusyTimes, window: Window) -> float:
    return busy.holes(window.from_s, window.until_s).idle_node_hours
