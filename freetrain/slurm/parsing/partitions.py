"""Partitions of scontrol. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from freetrain.core.node import Partition
from freetrain.slurm.parsing.node_lists import expand_nodes
from freetrain.slurm.parsing.words import fields_of, limit_of, lines_of

_FIELDS = (
    "PartitionName",
    "Nodes",
    "State",
    "PriorityTier",
    "PreemptMode",
    "GraceTime",
    "MaxTime",
    "DefMemPerCPU",
    "DefMemPerNode",
    "Default",
    "AllowAccounts",
    "DenyAccounts",
    "AllowQos",
    "DenyQos",
    "QoS",
    "TRESBillingWeights",
    "MinNodes",
    "MaxNodes",
    "MaxCPUsPerNode",
    "OverTimeLimit",
    "RootOnly",
    "ReqResv",
)


def parse_partitions(text: str) -> tuple[dict[str, Partition], list[str]]:
    """Partitions of ``scontrol -o show partition`` by name, and the lines that were not understood."""
    partitions, rejected = {}, []
    for fields in partition_fields(text):
        try:
            partitions[fields["PartitionName"]] = Partition(
                name=fields["PartitionName"],
                nodes=expand_nodes(fields.get("Nodes", "")),
                is_up=fields["State"] == "UP",
                priority_tier=int(fields["PriorityTier"]),
                preempt_mode=fields["PreemptMode"],
                grace_s=float(fields["GraceTime"]),
                max_time_s=limit_of(fields["MaxTime"]),
                default_memory_mb=default_memory_mb(fields),
            )
        except (KeyError, ValueError) as error:
            rejected.append(f"partition {fields.get('PartitionName', '')[:80]!r} not understood ({error})")
    return partitions, rejected


def partition_fields(text: str) -> Iterator[Mapping[str, str]]:
    """The fields that matter of each line of ``scontrol -o show partition``."""
    return (fields_of(line, _FIELDS) for line in lines_of(text, "PartitionName="))


def default_memory_mb(fields: Mapping[str, str]) -> int:
    """What a job gets that asks for no memory, of a partition or a whole configuration; 0: no limit."""
    given = (fields.get(name, "").strip() for name in ("DefMemPerCPU", "DefMemPerNode"))
    return next((int(text) for text in given if text.isdigit()), 0)
