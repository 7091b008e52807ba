"""Partitions of scontrol. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping

from freetrain.core.node import Partition
from freetrain.slurm.parsing.node_lists import expand_nodes
from freetrain.slurm.parsing.words import limit_of, lines_of


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
    """What a job gets that asks for no memory, of a partition or a whole configuration; 0: no limit."""
    given = (fields.get(name, "").strip() for name in ("DefMemPerCPU", "DefMemPerNode"))
    return next((int(text) for text in given if re.fullmatch(r"[0-9]{1,18}", text)), 0)
