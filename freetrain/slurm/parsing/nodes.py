"""Nodes of scontrol. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from freetrain.core.amounts import Amount
from freetrain.core.node import Node
from freetrain.slurm.parsing.amounts import parse_gres
from freetrain.slurm.parsing.words import fields_of, lines_of, text_or_nothing
from freetrain.slurm.states import facts_of_state

_FIELDS = (
    "NodeName", "State", "ActiveFeatures", "Partitions", "CPUEfctv", "CPUTot", "RealMemory", "TmpDisk", "Gres",
    "Sockets", "CoresPerSocket", "ThreadsPerCore", "CPUAlloc", "AllocMem", "GresUsed",
)  # fmt: skip


def parse_nodes(text: str) -> tuple[list[Node], list[str]]:
    """Nodes of ``scontrol -o show nodes``, and the lines that were not understood."""
    nodes, rejected = [], []
    for line in lines_of(text, "NodeName="):
        fields = fields_of(line, _FIELDS)
        if "NodeName" not in fields or "State" not in fields:
            rejected.append(f"node line without name or state: {line[:80]!r}")
            continue
        try:
            nodes.append(_node({**fields, "Reason": line.partition(" Reason=")[2]}))
        except ValueError as error:
            rejected.append(f"node line not understood ({error}): {line[:80]!r}")
    return nodes, rejected


def _node(fields: Mapping[str, str]) -> Node:
    return Node(
        name=fields["NodeName"],
        **facts_of_state(fields["State"], fields.get("Reason", "")),
        features=frozenset(filter(None, text_or_nothing(fields.get("ActiveFeatures", "")).split(","))),
        partitions=tuple(filter(None, text_or_nothing(fields.get("Partitions", "")).split(","))),
        # Cores that are set aside for the system are none of a job's.
        cpus=int(fields.get("CPUEfctv") or fields.get("CPUTot", "0")),
        memory_mb=int(fields.get("RealMemory", "0")),
        disk_mb=int(fields.get("TmpDisk", "0")),
        gres=parse_gres(text_or_nothing(fields.get("Gres", ""))),
        sockets=int(fields.get("Sockets", "0")),
        cores_per_socket=int(fields.get("CoresPerSocket", "0")),
        threads_per_core=int(fields.get("ThreadsPerCore", "0")),
        used=_used(fields),
    )


def _used(fields: Mapping[str, str]) -> Amount | None:
    """How much jobs have of a node; None where Slurm was not asked for such details."""
    if "GresUsed" not in fields:
        return None
    gres = parse_gres(text_or_nothing(fields["GresUsed"]))
    return Amount(int(fields["CPUAlloc"]), int(fields["AllocMem"]), gres)
