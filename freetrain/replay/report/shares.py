"""What lay idle on nodes that jobs used in part, for the report."""

from __future__ import annotations

from dataclasses import dataclass

from freetrain.replay.logs.model import SiteLog, TaskAsked
from freetrain.replay.share_outcome import ShareOutcome, ShareRow, share_outcome, share_rows
from freetrain.showing.words import NOTHING, amount, count


@dataclass(frozen=True, slots=True)
class ShownShares:
    """A table: a sentence, and a line for all nodes and for each group of them.

    Attributes:
        about: the sentence.
        rows: cells of each line: what it is, its nodes, partly used node-hours, CPU-, GiB- and GPU-hours, and
            hours of the tasks asked for that would have fit.
        about_tasks: a sentence on these; empty: nobody asked.
    """

    about: str
    rows: tuple[tuple[str, ...], ...]
    about_tasks: str = ""


def shown_shares(log: SiteLog) -> ShownShares | None:
    """The table; None where the log does not show what lay idle, or nothing did."""
    if log.shares is None:
        return None
    all_nodes = share_outcome(log.shares, log.holes)
    if not all_nodes.partly_used_node_hours:
        return None
    rows = [ShareRow("", "all nodes", len(log.shares.node_names), all_nodes), *share_rows(log)]
    fitting = log.shares.fitting
    return ShownShares(
        _about(all_nodes),
        tuple(_cells(row, all_nodes) for row in rows),
        _about_tasks(fitting.task, all_nodes) if fitting else "",
    )


def _about_tasks(task: TaskAsked, parts: ShareOutcome) -> str:
    beside, empty = parts.partly_fitting_task_hours or 0.0, parts.idle_nodes_fitting_task_hours or 0.0
    gpus = f", {count(beside * task.each.gpus, 'GPU-hour')}," if task.each.gpus else ""
    return (
        f"Tasks of {task.words} would have fit beside the jobs for {count(beside, 'task-hour')}{gpus} each for "
        f"{task.shortest_s:.0f} s or longer; on nodes without jobs for {count(empty, 'task-hour')}. That is what "
        "there was room for at every instant: how quickly a daemon sees it, and what it has to give back, is not "
        "counted."
    )


def _about(parts: ShareOutcome) -> str:
    gpus = ""
    if parts.partly_idle_gpu_hours is not None:
        gpus = f" and {count(parts.partly_idle_gpu_hours, 'GPU-hour')}"
    return (
        f"In {count(parts.partly_used_node_hours, 'node-hour')} nodes had jobs and an idle CPU beside them. "
        f"{count(parts.partly_idle_cpu_hours, 'CPU-hour')}{gpus} lay idle there; nodes without jobs had "
        f"{count(parts.idle_nodes_cpu_hours, 'CPU-hour')}. Only nodes without jobs are lent here."
    )


def _cells(row: ShareRow, largest: ShareOutcome) -> tuple[str, ...]:
    parts = row.outcome
    return (
        f"{row.what} {row.name}".strip(),
        f"{row.nodes:,}",
        _amount(parts.partly_used_node_hours, largest.partly_used_node_hours),
        _amount(parts.partly_idle_cpu_hours, largest.partly_idle_cpu_hours),
        _amount(parts.partly_idle_memory_gib_hours, largest.partly_idle_memory_gib_hours),
        _amount(parts.partly_idle_gpu_hours, largest.partly_idle_gpu_hours),
        *(
            ()
            if parts.partly_fitting_task_hours is None
            else (_amount(parts.partly_fitting_task_hours, largest.partly_fitting_task_hours),)
        ),
    )


def _amount(value: float | None, largest: float | None) -> str:
    return NOTHING if value is None else amount(value, largest)
