"""A site by Slurm's texts, or by rows of which only what matters is given."""

from __future__ import annotations

from collections.abc import Mapping

from freetrain.core.node import Partition
from freetrain.durations import show_duration
from freetrain.slurm.parsing import fold_nodes, parse_partitions
from freetrain.slurm.parsing.words import Row
from freetrain.slurm.queries import ASSOCIATION_FIELDS, QOS_FIELDS
from freetrain.slurm.settings import parse_conf
from freetrain.slurm.site.changes import NEW_QOS
from freetrain.slurm.site.facts import Site


def site_of(
    config: str,
    partitions: str = "",
    qos: Mapping[str, Row] | None = None,
    associations: tuple[Row, ...] | None = None,
) -> Site:
    """The site of ``scontrol show config``, ``scontrol -o show partition`` and rows of accounting."""
    rows, rejected = parse_partitions(partitions)
    assert rejected == []
    return Site(parse_conf(config), rows, qos, associations)


def partition_row(partition: Partition, **fields: str) -> dict[str, str]:
    """A partition as Slurm shows it; fields that are given come before its own."""
    return {
        "PartitionName": partition.name,
        "Nodes": fold_nodes(partition.nodes),
        "State": "UP" if partition.is_up else "DOWN",
        "PriorityTier": f"{partition.priority_tier}",
        "PreemptMode": partition.preempt_mode,
        "GraceTime": f"{partition.grace_s:.0f}",
        "MaxTime": show_duration(partition.max_time_s),
        **({"DefMemPerNode": f"{partition.default_memory_mb}"} if partition.default_memory_mb else {}),
        **fields,
    }


def qos_row(name: str, **fields: str) -> dict[str, str]:
    """A QOS as accounting shows it."""
    return {**dict.fromkeys(QOS_FIELDS, ""), "Name": name, **NEW_QOS, **fields}


def qos_rows(**preempts: str) -> dict[str, Row]:
    """QOS by name, each with those that it preempts."""
    return {name: qos_row(name, Preempt=names) for name, names in preempts.items()}


def association_row(account: str, user: str = "", **fields: str) -> dict[str, str]:
    """An account, or a user in it, as accounting shows it."""
    row = dict.fromkeys(ASSOCIATION_FIELDS, "") | {"Account": account, "User": user, "QOS": "normal"}
    return row | {"ParentName": "" if user or account == "root" else "root"} | fields
