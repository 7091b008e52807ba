"""What ``freetrain replay`` prints of the idle parts of nodes that jobs used, and of what is lent of them."""

from __future__ import annotations

from collections.abc import Iterator

import click

from freetrain.cli.output import print_figures, print_heading, print_table
from freetrain.cli.summary_rows import outcome_rows, part_of, site_row
from freetrain.core.amounts import Amount
from freetrain.replay.logs import SiteLog, TaskAsked
from freetrain.replay.outcome import Outcome
from freetrain.replay.share_outcome import LentShares, ShareOutcome, ShareRow, lent_of, share_outcome, share_rows
from freetrain.replay.study import Study


def print_shares(log: SiteLog, played: Study | None) -> None:
    """What lay idle there and what was lent of it, by partition and type of GPU; nothing where nobody shared."""
    all_nodes = share_outcome(log)
    if log.shares is not None and all_nodes is not None and all_nodes.partly_used_node_hours:
        print_heading("Idle beside it: parts of nodes that jobs used")
        print_figures(_rows(all_nodes))
    if log.places is None or played is None:
        return
    task, daemon = log.places.task, played.as_daemon
    tasks = f"{'their own tasks, counted in ' if played.has_own_tasks else ''}tasks of {task.words}"
    if daemon is not None:
        print_heading(f"What the daemon would have got in parts of nodes, too: {tasks}")
        print_figures([*_lent_rows(daemon.outcome, task), *outcome_rows(daemon.outcome), site_row(daemon.site)])
        _print_groups(log, task, lent_of(daemon, log), "by the daemon")
    print_heading(f"What the holes allow if parts of nodes are lent, too: {tasks}")
    print_figures([*_lent_rows(played.outcome, task), *outcome_rows(played.outcome)])
    _print_groups(log, task, lent_of(played, log), "as the holes allow")


def _print_groups(log: SiteLog, task: TaskAsked, lent: LentShares | None, how: str) -> None:
    all_nodes = share_outcome(log, lent)
    assert all_nodes is not None
    print_heading(f"Beside jobs, {how}, of the task-hours that would have fit")
    columns = ("nodes", "task-hours", "lent", "useful", "GPU-hours", "of idle GPUs", "CPU-hours", "of idle CPUs")
    of_all = ShareRow("", "all nodes", len(log.holes.node_names), all_nodes)
    print_table(("", *columns), (_cells(row) for row in (of_all, *share_rows(log, lent))), right=columns)
    if task.keep != Amount():
        click.echo(f"Of each node {task.keep} are kept back (lend.keep).")


def _rows(parts: ShareOutcome) -> Iterator[tuple[str, str, str]]:
    yield (
        "nodes",
        f"{parts.partly_used_node_hours:,.0f}",
        "node-hours with jobs and an idle CPU",
    )
    for name, idle, whole in (
        ("CPUs", parts.partly_idle_cpu_hours, parts.idle_nodes_cpu_hours),
        ("memory", parts.partly_idle_memory_gib_hours, parts.idle_nodes_memory_gib_hours),
        ("GPUs", parts.partly_idle_gpu_hours, parts.idle_nodes_gpu_hours),
    ):
        unit = {"CPUs": "CPU-hours", "memory": "GiB-hours", "GPUs": "GPU-hours"}[name]
        if idle is not None and whole is not None:
            yield name, f"{idle:,.0f}", f"{unit} that no job held there; nodes without jobs had {whole:,.0f}"


def _lent_rows(out: Outcome, task: TaskAsked) -> Iterator[tuple[str, str, str]]:
    room, lent, useful = out.idle_node_hours, out.lent_node_hours, out.useful_node_hours
    yield "room", f"{room:,.0f}", f"task-hours, for {task.shortest_s:.0f} s or longer, nodes without jobs included"
    yield "lent", f"{lent:,.0f}", f"task-hours, {part_of(lent, room)} of them"
    yield "useful", f"{useful:,.0f}", f"task-hours, {part_of(useful, room)} of them"


def _cells(row: ShareRow) -> tuple[str, ...]:
    out = row.outcome
    fitting, lent = out.partly_fitting_task_hours or 0.0, out.partly_lent_task_hours or 0.0
    gpus, cpus = out.partly_lent_gpu_hours or 0.0, out.partly_lent_cpu_hours or 0.0
    return (
        f"{row.what} {row.name}".strip(),
        f"{row.nodes:,}",
        f"{fitting:,.0f}",
        part_of(lent, fitting),
        part_of(out.partly_useful_task_hours, fitting),
        f"{gpus:,.0f}",
        part_of(gpus, out.partly_idle_gpu_hours),
        f"{cpus:,.0f}",
        part_of(cpus, out.partly_idle_cpu_hours),
    )
