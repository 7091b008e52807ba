"""What lay idle on nodes that jobs used in part, and what was lent of it, for the report."""

from __future__ import annotations

from dataclasses import dataclass

from freetrain.replay.lent_shares import lent_of
from freetrain.replay.logs.idle_parts import TaskAsked
from freetrain.replay.logs.model import SiteLog
from freetrain.replay.share_outcome import ShareOutcome, ShareRow, share_outcome, share_rows
from freetrain.replay.study import Study
from freetrain.showing.words import NOTHING, amount, count


@dataclass(frozen=True, slots=True)
class ShownShares:
    """A table: a sentence, and a line for all nodes and for each group of them.

    Attributes:
        about: the sentence.
        rows: cells of each line: what it is, its nodes, partly used node-hours, CPU-, GiB- and GPU-hours, and,
            where tasks were asked for, the hours of those that would have fit, were lent and were of use.
        about_tasks: sentences on these; empty: nobody asked.
    """

    about: str
    rows: tuple[tuple[str, ...], ...]
    about_tasks: str = ""


def shown_shares(log: SiteLog, played: Study | None = None) -> ShownShares | None:
    """The table; None where the log does not show what lay idle, or nothing did.

    Args:
        log: what lay idle.
        played: the replay in which parts of nodes were lent; None: it was not asked. What the daemon would have
            got of it is shown where it is known.
    """
    lent = lent_of(played and (played.as_daemon or played), log)
    all_nodes = share_outcome(log, lent)
    if all_nodes is None or not all_nodes.partly_used_node_hours:
        return None
    rows = [ShareRow("", "all nodes", len(log.holes.node_names), all_nodes), *share_rows(log, lent)]
    return ShownShares(
        _about(all_nodes),
        tuple(_cells(row, all_nodes) for row in rows),
        _about_tasks(log.places.task, all_nodes, played) if log.places else "",
    )


def _about_tasks(task: TaskAsked, parts: ShareOutcome, played: Study | None) -> str:
    beside, empty = parts.partly_fitting_task_hours or 0.0, parts.idle_nodes_fitting_task_hours or 0.0
    gpus = f", {count(beside * task.each.gpus, 'GPU-hour')}," if task.each.gpus else ""
    fitted = (
        f"Tasks of {task.words} would have fit beside the jobs for {count(beside, 'task-hour')}{gpus} each for "
        f"{task.shortest_s:.0f} s or longer; on nodes without jobs for {count(empty, 'task-hour')}."
    )
    return fitted if played is None else f"{fitted} {_about_lent(parts, played)}"


def _about_lent(parts: ShareOutcome, played: Study) -> str:
    beside, empty = parts.partly_lent_task_hours or 0.0, parts.idle_nodes_lent_task_hours or 0.0
    daemon, allowed = played.as_daemon, played.outcome
    who = "the daemon would have lent" if daemon else "the holes allow"
    own = "one of its own tasks, counted as so many of these"
    said = (
        f"Of these {who} {count(beside, 'task-hour')} beside jobs and {count(empty, 'task-hour')} on nodes "
        f"without, to trainers each of whose nodes is {own if played.has_own_tasks else 'such a task here'}"
    )
    if daemon is None:
        return f"{said}: places are lent at the instant at which there is room."
    site = daemon.site
    return (
        f"{said}; the holes allow {count(allowed.lent_node_hours, 'task-hour')} of both. {site.site_delayed:,} of "
        f"{count(site.site_starts, 'job')} that started waited for what was lent, on average over all of them "
        f"{site.site_delay_mean_s:.1f} s."
    )


def _about(parts: ShareOutcome) -> str:
    gpus = ""
    if parts.partly_idle_gpu_hours is not None:
        gpus = f" and {count(parts.partly_idle_gpu_hours, 'GPU-hour')}"
    return (
        f"In {count(parts.partly_used_node_hours, 'node-hour')} nodes had jobs and an idle CPU beside them. "
        f"{count(parts.partly_idle_cpu_hours, 'CPU-hour')}{gpus} lay idle there; nodes without jobs had "
        f"{count(parts.idle_nodes_cpu_hours, 'CPU-hour')}."
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
            _amount(hours, largest.partly_fitting_task_hours)
            for hours in (
                parts.partly_fitting_task_hours,
                parts.partly_lent_task_hours,
                parts.partly_useful_task_hours,
            )
            if hours is not None
        ),
    )


def _amount(value: float | None, largest: float | None) -> str:
    return NOTHING if value is None else amount(value, largest)
