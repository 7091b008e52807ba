"""Slurm's texts as facts. Pure; what is not understood is named, and never guessed."""

from freetrain.slurm.parsing.hardware import (
    NodeRows,
    default_memory_mb,
    parse_nodes,
    parse_partition,
    parse_partitions,
    parse_reservations,
    parse_topology,
)
from freetrain.slurm.parsing.jobs import (
    JobRows,
    max_running_of,
    parse_cancellers,
    parse_jobs,
    parse_preemptions,
    parse_runs,
    tasks_of,
    waiting_tasks,
)
from freetrain.slurm.parsing.node_lists import expand_nodes, fold_nodes
from freetrain.slurm.parsing.words import parse_amount, parse_gres, text_or_nothing, time_of

__all__ = [
    "JobRows",
    "NodeRows",
    "default_memory_mb",
    "expand_nodes",
    "fold_nodes",
    "max_running_of",
    "parse_amount",
    "parse_cancellers",
    "parse_gres",
    "parse_jobs",
    "parse_nodes",
    "parse_partition",
    "parse_partitions",
    "parse_preemptions",
    "parse_reservations",
    "parse_runs",
    "parse_topology",
    "tasks_of",
    "text_or_nothing",
    "time_of",
    "waiting_tasks",
]
