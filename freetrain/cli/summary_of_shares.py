"""What ``freetrain replay`` prints of the idle parts of nodes that jobs used."""

from __future__ import annotations

from collections.abc import Iterator

import click

from freetrain.cli.output import print_figures, print_heading, print_table
from freetrain.core.amounts import Amount
from freetrain.replay.logs import SiteLog
from freetrain.replay.share_outcome import ShareOutcome, ShareRow, share_outcome, share_rows
from freetrain.showing.words import NOTHING


def print_shares(log: SiteLog) -> None:
    """What lay idle there and what would have fit, by partition and type of GPU; nothing where nobody shared."""
    if log.shares is None or not log.shares.partly_used_s.any():
        return
    all_nodes = share_outcome(log.shares, log.holes)
    print_heading("Idle beside it: parts of nodes that jobs used")
    print_figures(_rows(all_nodes))
    if log.shares.fitting is None:
        return
    task = log.shares.fitting.task
    print_heading(f"Tasks of {task.words} that would have fit there, for {task.shortest_s:.0f} s or longer")
    of_all = ShareRow("", "all nodes", len(log.shares.node_names), all_nodes)
    print_table(
        ("", "nodes", "task-hours", "GPU-hours", "of idle GPUs", "CPU-hours", "of idle CPUs"),
        (_fitting_cells(row, task.each) for row in (of_all, *share_rows(log))),
        right=("nodes", "task-hours", "GPU-hours", "of idle GPUs", "CPU-hours", "of idle CPUs"),
    )
    if task.keep != Amount():
        click.echo(f"Of each node {task.keep} are kept back (lend.keep).")


def _rows(parts: ShareOutcome) -> Iterator[tuple[str, str, str]]:
    yield (
        "nodes",
        f"{parts.partly_used_node_hours:,.0f}",
        "node-hours with jobs and an idle CPU; these are not lent",
    )
    for name, idle, whole in (
        ("CPUs", parts.partly_idle_cpu_hours, parts.idle_nodes_cpu_hours),
        ("memory", parts.partly_idle_memory_gib_hours, parts.idle_nodes_memory_gib_hours),
        ("GPUs", parts.partly_idle_gpu_hours, parts.idle_nodes_gpu_hours),
    ):
        unit = {"CPUs": "CPU-hours", "memory": "GiB-hours", "GPUs": "GPU-hours"}[name]
        if idle is not None and whole is not None:
            yield name, f"{idle:,.0f}", f"{unit} that no job held there; nodes without jobs had {whole:,.0f}"


def _fitting_cells(row: ShareRow, each: Amount) -> tuple[str, ...]:
    hours = row.outcome.partly_fitting_task_hours or 0.0
    gpus, cpus = hours * each.gpus, hours * max(each.cpus, 1)
    return (
        f"{row.what} {row.name}".strip(),
        f"{row.nodes:,}",
        f"{hours:,.0f}",
        f"{gpus:,.0f}",
        _part(gpus, row.outcome.partly_idle_gpu_hours),
        f"{cpus:,.0f}",
        _part(cpus, row.outcome.partly_idle_cpu_hours),
    )


def _part(part: float, whole: float | None) -> str:
    return f"{part / whole:.1%}" if whole else NOTHING
