"""The machine as scontrol shows it: nodes, partitions, reservations and switches. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial

from freetrain.core.amounts import Amount, Gres
from freetrain.core.node import Node, Nodes, Partition, Reservation
from freetrain.core.topology import Topology
from freetrain.slurm.parsing.node_lists import expand_nodes
from freetrain.slurm.parsing.words import (
    KnownRows,
    fields_of,
    limit_of,
    lines_of,
    parse_gres,
    text_or_nothing,
    time_of,
)
from freetrain.slurm.states import facts_of_state

_NODE_FIELDS = (
    "NodeName", "State", "ActiveFeatures", "Partitions", "CPUEfctv", "CPUTot", "RealMemory", "TmpDisk", "Gres",
    "Sockets", "CoresPerSocket", "ThreadsPerCore", "CPUAlloc", "AllocMem", "GresUsed",
)  # fmt: skip
# What the node's own daemon measures: with it no row would come again as it was.
_READINGS = re.compile(r" (?:CPULoad|FreeMem|LastBusyTime|CurrentWatts|AveWatts)=\S*")
_SWITCH_FIELD = re.compile(r"\b(\w+)=(\S*)")
_SWITCH_NAMES = ("SwitchName", "BlockName", "AggregatedBlock")


NodeRows = KnownRows[Node | str]
"""The node of a row of scontrol, or the reason why the row was not understood."""


def parse_nodes(text: str, in_parts: bool = False, known: NodeRows | None = None) -> tuple[list[Node], list[str]]:
    """Nodes of ``scontrol -o show nodes``, and the lines that were not understood."""
    lines = lines_of(_READINGS.sub("", text), "NodeName=")
    rows = (known or NodeRows()).read(lines, partial(_node_of, in_parts=in_parts))
    return [row for row in rows if isinstance(row, Node)], [row for row in rows if isinstance(row, str)]


def _node_of(line: str, in_parts: bool) -> Node | str:
    fields = fields_of(line, _NODE_FIELDS)
    if "NodeName" not in fields or "State" not in fields:
        return f"node line without name or state: {line[:80]!r}"
    try:
        gres = parse_gres(text_or_nothing(fields.get("Gres", "")))
        return Node(
            name=fields["NodeName"],
            **facts_of_state(fields["State"], line.partition(" Reason=")[2]),
            features=frozenset(filter(None, text_or_nothing(fields.get("ActiveFeatures", "")).split(","))),
            partitions=tuple(filter(None, text_or_nothing(fields.get("Partitions", "")).split(","))),
            # Cores that are set aside for the system are none of a job's.
            cpus=int(fields.get("CPUEfctv") or fields.get("CPUTot", "0")),
            memory_mb=int(fields.get("RealMemory", "0")),
            disk_mb=int(fields.get("TmpDisk", "0")),
            gres=gres,
            sockets=int(fields.get("Sockets", "0")),
            cores_per_socket=int(fields.get("CoresPerSocket", "0")),
            threads_per_core=int(fields.get("ThreadsPerCore", "0")),
            used=_used(fields, gres) if in_parts else None,
        )
    except ValueError as error:
        return f"node line not understood ({error}): {line[:80]!r}"


def _used(fields: Mapping[str, str], gres: Gres) -> Amount | None:
    # Of a node without generic resources Slurm leaves GresUsed out (22.05.8).
    if not {"CPUAlloc", "AllocMem"} <= fields.keys() or (gres and "GresUsed" not in fields):
        return None
    used = parse_gres(text_or_nothing(fields.get("GresUsed", "")))
    return Amount(int(fields["CPUAlloc"]), int(fields["AllocMem"]), used)


def parse_partitions(text: str) -> tuple[dict[str, Mapping[str, str]], list[str]]:
    """Partitions of ``scontrol -o show partition`` by name, as Slurm shows them, and the lines not understood."""
    rows: dict[str, Mapping[str, str]] = {}
    rejected = []
    for line in lines_of(text, "PartitionName="):
        row = dict(field.partition("=")[::2] for field in line.split())
        try:
            rows[parse_partition(row).name] = row
        except (KeyError, ValueError) as error:
            rejected.append(f"partition {row.get('PartitionName', '')[:80]!r} not understood ({error})")
    return rows, rejected


def parse_partition(row: Mapping[str, str]) -> Partition:
    """The partition of a row.

    Raises:
        KeyError, ValueError: a field is missing, or not what it must be.
    """
    return Partition(
        name=row["PartitionName"],
        nodes=expand_nodes(row.get("Nodes", "")),
        is_up=row["State"] == "UP",
        priority_tier=int(row["PriorityTier"]),
        preempt_mode=row["PreemptMode"],
        grace_s=float(row["GraceTime"]),
        max_time_s=limit_of(row["MaxTime"]),
        default_memory_mb=default_memory_mb(row),
    )


def default_memory_mb(fields: Mapping[str, str]) -> int:
    """Megabytes of a job that asks for no memory, in a partition or by the whole configuration; 0: no limit."""
    given = (fields.get(name, "").strip() for name in ("DefMemPerCPU", "DefMemPerNode"))
    return next((int(text) for text in given if re.fullmatch(r"[0-9]{1,18}", text)), 0)


def parse_reservations(text: str) -> tuple[list[Reservation], list[str]]:
    """Reservations of ``scontrol -o show reservation``, and the lines that were not understood."""
    reservations, rejected = [], []
    for line in lines_of(text, "ReservationName="):
        fields = fields_of(line, ("ReservationName", "StartTime", "EndTime", "Nodes", "Flags"))
        start_s, end_s = time_of(fields.get("StartTime", "")), time_of(fields.get("EndTime", ""))
        if start_s is None or end_s is None:
            rejected.append(f"reservation without times: {line[:80]!r}")
            continue
        flags = frozenset(filter(None, text_or_nothing(fields.get("Flags", "")).split(",")))
        try:
            nodes = expand_nodes(fields.get("Nodes", ""))
        except ValueError as error:
            rejected.append(f"reservation line not understood ({error}): {line[:80]!r}")
            continue
        reservations.append(Reservation(fields["ReservationName"], nodes, start_s, end_s, flags))
    return reservations, rejected


@dataclass(frozen=True, slots=True)
class _Switch:
    """A switch, or a block of nodes, with its height and the nodes below it."""

    name: str
    height: int
    nodes: Nodes


def parse_topology(text: str) -> tuple[Topology, list[str]]:
    """The switches, and the lines that were not understood. A site without a topology has a flat one.

    Slurm lists every node with all switches above it: it is connected to the lowest of them, and a switch is
    below the lowest of the higher ones that have all its nodes.
    """
    by_name: dict[str, _Switch] = {}
    rejected: list[str] = []
    for line in text.splitlines():
        fields = dict(_SWITCH_FIELD.findall(line))
        name = next((fields[kind] for kind in _SWITCH_NAMES if kind in fields), None)
        if name is None:
            continue
        try:
            # A switch has a level; a block, and blocks taken together, are as high as they are large.
            height = int(fields["Level"] if "SwitchName" in fields else fields["BlockSize"])
            switch = _Switch(name, height, expand_nodes(fields["Nodes"]))
            if by_name.setdefault(name, switch) != switch:
                raise ValueError("it is named twice")
        except (ValueError, KeyError) as error:
            rejected.append(f"switch {line[:60]!r}: {error}")
    switches = sorted(by_name.values(), key=lambda switch: (switch.height, switch.name))
    # From the top: the lowest switch above a node is the last that is set.
    leaves = {node: switch.name for switch in reversed(switches) for node in switch.nodes}
    return Topology(leaves, dict(_parents(switches))), rejected


def _parents(switches: list[_Switch]) -> Iterator[tuple[str, str]]:
    for number, low in enumerate(switches):
        above = (high for high in switches[number + 1 :] if high.height > low.height and high.nodes >= low.nodes)
        if (parent := next(above, None)) is not None:
            yield low.name, parent.name
