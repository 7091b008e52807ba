"""Nodes of scontrol. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from freetrain.core.amounts import Amount, Gres
from freetrain.core.node import Node
from freetrain.slurm.parsing.amounts import parse_gres
from freetrain.slurm.parsing.words import fields_of, lines_of, text_or_nothing
from freetrain.slurm.states import facts_of_state

_FIELDS = (
    "NodeName", "State", "ActiveFeatures", "Partitions", "CPUEfctv", "CPUTot", "RealMemory", "TmpDisk", "Gres",
    "Sockets", "CoresPerSocket", "ThreadsPerCore", "CPUAlloc", "AllocMem", "GresUsed",
)  # fmt: skip


def parse_nodes(text: str, in_parts: bool = False) -> tuple[list[Node], list[str]]:
    """Nodes of ``scontrol -o show nodes``, and the lines that were not understood.

    Args:
        text: what scontrol printed.
        in_parts: whether it was asked with ``-d``, so that it says how much of each node is used.
    """
    nodes, rejected = [], []
    for line in lines_of(text, "NodeName="):
        fields = fields_of(line, _FIELDS)
        if "NodeName" not in fields or "State" not in fields:
            rejected.append(f"node line without name or state: {line[:80]!r}")
            continue
        try:
            nodes.append(_node({**fields, "Reason": line.partition(" Reason=")[2]}, in_parts))
        except ValueError as error:
            rejected.append(f"node line not understood ({error}): {line[:80]!r}")
    return nodes, rejected


def _node(fields: Mapping[str, str], in_parts: bool) -> Node:
    gres = parse_gres(text_or_nothing(fields.get("Gres", "")))
    return Node(
        name=fields["NodeName"],
        **facts_of_state(fields["State"], fields.get("Reason", "")),
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


def _used(fields: Mapping[str, str], gres: Gres) -> Amount | None:
    """How much jobs have of a node; None where Slurm does not say.

    Of a node without generic resources it leaves GresUsed out (22.05.8).
    """
    if not {"CPUAlloc", "AllocMem"} <= fields.keys() or (gres and "GresUsed" not in fields):
        return None
    used = parse_gres(text_or_nothing(fields.get("GresUsed", "")))
    return Amount(int(fields["CPUAlloc"]), int(fields["AllocMem"]), used)
