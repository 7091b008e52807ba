"""Slurm's texts as facts. Pure; what is not understood is named, and never guessed."""

from freetrain.slurm.parsing.hardware import parse_nodes, parse_partitions, parse_reservations, parse_topology
from freetrain.slurm.parsing.jobs import parse_cancellers, parse_jobs, parse_preemptions, parse_runs
from freetrain.slurm.parsing.node_lists import expand_nodes, fold_nodes
from freetrain.slurm.parsing.words import parse_amount

__all__ = [
    "expand_nodes", "fold_nodes", "parse_amount", "parse_cancellers", "parse_jobs", "parse_nodes",
    "parse_partitions", "parse_preemptions", "parse_reservations", "parse_runs", "parse_topology",
]  # fmt: skip
