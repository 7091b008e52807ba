"""Output of ``freetrain replay``: the outcome in a few lines, or as JSON."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import click

from freetrain import __version__
from freetrain.cli.listing import print_figures, print_heading, print_table
from freetrain.config import Prices
from freetrain.core.amounts import Amount
from freetrain.core.holes import SECONDS_PER_HOUR
from freetrain.replay.estimate import DaemonEstimate
from freetrain.replay.logs import SiteLog, TaskRequest
from freetrain.replay.outcome import (
    LentShares,
    ReplayOutcome,
    ShareOutcome,
    ShareRow,
    SiteOutcome,
    definitions,
    lent_of,
    share_outcome,
    share_rows,
    without_empty_hours,
)
from freetrain.replay.study import DaemonStudy, Study
from freetrain.replay.worth import Worth, worth_rows
from freetrain.showing.words import NOTHING, count, duration, milliseconds, or_nothing, show_time

RESULT_FORMAT = "freetrain-replay/1"
_FOUR_DIGITS = "{:.4f}"
_TextRow = tuple[str, str, str]
"""A figure: its name, its value, and its meaning."""


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """A replay with everything that is printed about it."""

    logs: tuple[Path, ...]
    log: SiteLog
    settings: Mapping[str, Any]
    study: Study
    run_id: int | None
    report: Path | None
    prices: Prices | None = None

    @property
    def worth(self) -> Worth | None:
        """Worth of the shown replay; None: the site gave no prices."""
        return None if self.prices is None else self.study.worth(self.prices)


def result_document(result: ReplayResult) -> dict[str, Any]:
    """The result as JSON, for programs."""
    log, done = result.log, result.study
    return {
        "format": RESULT_FORMAT,
        "version": __version__,
        "run": result.run_id,
        "report": None if result.report is None else str(result.report),
        "log": {
            "files": [str(path) for path in result.logs],
            "format": log.format,
            "packed": log.packed,
            "jobs": log.jobs,
            "rows": asdict(log.rows),
            "notes": list(log.notes),
            "warnings": list(log.warnings),
            "empty_hours": _empty_hours(log, done),
            "from_s": log.holes.from_s,
            "until_s": log.holes.until_s,
            "nodes": len(log.holes.node_names),
            "holes": len(log.holes),
        },
        "settings": dict(result.settings),
        "outcome": asdict(done.outcome),
        "forecast": asdict(done.record.forecast),
        **beside_document(log, done),
        "worth": result.worth and asdict(result.worth),
        "wall_s": done.record.wall_s,
        "events_per_s": done.events_per_s,
    }


def _empty_hours(log: SiteLog, done: Study) -> dict[str, Any] | None:
    empty = log.empty
    if empty is None:
        return None
    without = without_empty_hours(done.record, empty)
    return {
        "hours": empty.hours,
        "idle_node_hours": empty.idle_node_hours,
        "left_out": empty.left_out,
        "without": without and asdict(without),
    }


def beside_document(log: SiteLog, done: Study) -> dict[str, Any]:
    """Results that were asked for besides what the holes allow, for programs."""
    return {
        "as_daemon": done.as_daemon and _daemon_document(done.as_daemon),
        "estimate": done.estimate and asdict(done.estimate),
        "shares": _share_document(log, done.on_shares),
    }


def _daemon_document(done: DaemonStudy) -> dict[str, Any]:
    """Result of the replay as the daemon, for programs."""
    return {
        "outcome": asdict(done.outcome),
        "site": asdict(done.site),
        "forecast": asdict(done.record.forecast),
        "wall_s": done.record.wall_s,
    }


def _share_document(log: SiteLog, played: Study | None = None) -> dict[str, Any] | None:
    """Idle parts of used nodes, and what was lent of them, for programs; None: the log does not show them."""
    shares = log.shares
    if shares is None:
        return None
    parts = {"cpus": shares.cpus, "memory": shares.memory_bytes, "gpus": shares.gpus}
    daemon = played.as_daemon if played is not None else None
    by_daemon = _lent_document(log, lent_of(daemon.record, log)) if daemon is not None else None
    return {
        **_lent_document(log, lent_of(played.record if played else None, log)),
        "at_least": [name for name, part in parts.items() if part is not None and part.is_least],
        "spread_share": shares.spread,
        "task": log.places and asdict(log.places.task),
        "replay": played and asdict(played.outcome),
        "as_daemon": daemon and {**_daemon_document(daemon), "shares": by_daemon},
    }


def _lent_document(log: SiteLog, lent: LentShares | None) -> dict[str, Any]:
    outcome = share_outcome(log, lent)
    return {
        "outcome": outcome and asdict(outcome),
        "groups": [
            {"what": row.what, "name": row.name, "nodes": row.nodes, "outcome": asdict(row.outcome)}
            for row in share_rows(log, lent)
        ],
    }


def print_definitions() -> None:
    """Print the definition of each figure."""
    found = {**definitions(), **definitions(SiteOutcome), **definitions(ShareOutcome)}
    print_table(("figure", "definition"), found.items())


def print_first(log: SiteLog, done: Study) -> None:
    """Print what is known first: what was read, and what the holes allow."""
    for warning in log.warnings:
        click.echo(f"Warning: {warning}")
    _print_log(log)
    print_heading("What the holes allow")
    print_figures(_allowed_rows(log, done))
    # Where the output goes into a pipe, it would wait there until the daemon's replay is over.
    sys.stdout.flush()


def print_summary(result: ReplayResult) -> None:
    """Print the rest of the result, once that is known, too."""
    daemon = result.study.as_daemon
    if daemon is not None:
        print_heading("What the daemon would have got")
        decisions = ("decisions", f"{daemon.outcome.decisions:,}", f"in {daemon.record.wall_s:,.1f} s")
        rows = _gain_rows(daemon.outcome, "node-hours", "idle")
        print_figures((*rows, _site_row(daemon.site), decisions))
    if result.study.estimate is not None:
        print_heading("What the daemon would have got, estimated")
        print_figures(_estimate_rows(result.study.estimate, result.study.outcome))
    _print_shares(result.log, result.study.on_shares)
    if result.prices and result.worth:
        print_heading("What it is worth")
        print_figures(worth_rows(result.worth, result.prices))
    for note in result.log.notes:
        click.echo(f"Note: {note}")
    if result.report is not None:
        click.echo(f"Report: {result.report}")
    if result.run_id is not None:
        click.echo(f"Recorded as run {result.run_id}: freetrain runs show {result.run_id}")


def _print_log(log: SiteLog) -> None:
    rows, holes = log.rows, log.holes
    ignored = ", ".join(f"{count:,} {reason}" for reason, count in rows.ignored.items())
    click.echo(
        f"Read as {log.format}: {rows.read:,} rows = {rows.used:,} used + {sum(rows.ignored.values()):,} ignored"
        f"{f' ({ignored})' if ignored else ''} + {rows.rejected:,} rejected"
    )
    for reject in rows.first_rejects:
        click.echo(f"  {reject.file}:{reject.line}: {reject.reason}", err=True)
    if (more := rows.rejected - len(rows.first_rejects)) > 0:
        click.echo(f"  … and {more:,} more (--rejects FILE keeps all)", err=True)
    nodes, found = count(len(holes.node_names), "node"), count(len(holes), "hole")
    window = f"{show_time(holes.from_s)} to {show_time(holes.until_s)} ({duration(holes.duration_s)})"
    click.echo(_with_plain_spaces(f"Window: {window}, {nodes}, {found}"))


def _allowed_rows(log: SiteLog, done: Study) -> Iterator[_TextRow]:
    out = done.outcome
    capacity = len(log.holes.node_names) * log.holes.duration_s / SECONDS_PER_HOUR
    yield (
        "idle",
        f"{out.idle_node_hours:,.0f}",
        f"node-hours, {_percent(out.idle_node_hours, capacity)} of the machine",
    )
    yield from _lent_rows(out, "node-hours", "idle")
    yield from _work_rows(out)
    rest = without_empty_hours(done.record, log.empty)
    if log.empty is not None and rest is not None:
        yield (
            "full hours",
            f"{rest.idle_node_hours:,.0f}",
            f"node-hours idle, {rest.lent_node_hours:,.0f} of them lent, {rest.samples:.4g} samples, without the "
            f"{_with_plain_spaces(count(log.empty.hours, 'hour'))} in which at least 95 % of the machine was idle",
        )
    yield from _cost_rows(out)
    yield "trainers", f"{out.trainers_completed:,}", f"completed of {out.trainers_admitted:,} admitted"
    pace = f"in {done.record.wall_s:,.1f} s ({done.events_per_s:,.0f} events/s)"
    yield "decisions", f"{out.decisions:,}", f"for {out.events:,} events {pace}"
    statuses = ", ".join(f"{count:,} {status}" for status, count in out.statuses.items())
    slowest = f"p95 {milliseconds(out.solve_p95_s)}, max {milliseconds(out.solve_max_s)}"
    yield "solve", milliseconds(out.solve_p50_s), f"median; {slowest}; {statuses or 'none'}"


def _estimate_rows(found: DaemonEstimate, allowed: ReplayOutcome) -> Iterator[_TextRow]:
    idle = allowed.idle_node_hours
    for name, hours in (("lent", found.lent_node_hours), ("useful", found.useful_node_hours)):
        part = f"{_percent(hours.value, idle)} ± {_percent(hours.within, idle)} of idle"
        yield name, f"{hours.value:,.0f}", f"± {hours.within:,.0f} node-hours, {part}"
    if found.work is not None:
        nodes = f"of the same trainers on {allowed.dedicated_nodes:,.1f} dedicated nodes"
        yield "work", f"{found.work.value:.4f}", f"± {found.work.within:.4f} {nodes}"
    blocks = f"of {count(found.of_blocks, 'block')} of {duration(found.block_s)}, spread over the log"
    yield "from", f"{found.blocks:,}", _with_plain_spaces(f"{blocks} (seed {found.seed}); ± is a 95 % interval")
    yield "--exact", "", _with_plain_spaces(f"replays all of them, in about {duration(found.whole_s)}")


def _print_shares(log: SiteLog, played: Study | None) -> None:
    """Print idle and lent parts of used nodes, by partition and GPU; nothing where none is shared."""
    all_nodes = share_outcome(log)
    if log.shares is not None and all_nodes is not None and all_nodes.partly_used_node_hours:
        print_heading("Idle beside it: parts of nodes that jobs used")
        print_figures(_idle_part_rows(all_nodes))
    if log.places is None or played is None:
        return
    task, daemon = log.places.task, played.as_daemon
    tasks = f"{'their own tasks, counted in ' if played.has_own_tasks else ''}tasks of {task.words}"
    if daemon is not None:
        print_heading(f"What the daemon would have got in parts of nodes, too: {tasks}")
        print_figures([*_task_rows(daemon.outcome, task), _site_row(daemon.site)])
        _print_groups(log, task, lent_of(daemon.record, log), "by the daemon")
    print_heading(f"What the holes allow if parts of nodes are lent, too: {tasks}")
    print_figures(_task_rows(played.outcome, task))
    _print_groups(log, task, lent_of(played.record, log), "as the holes allow")


def _idle_part_rows(parts: ShareOutcome) -> Iterator[_TextRow]:
    yield "nodes", f"{parts.partly_used_node_hours:,.0f}", "node-hours with jobs and an idle CPU"
    for name, unit, idle, whole in (
        ("CPUs", "CPU-hours", parts.partly_idle_cpu_hours, parts.idle_nodes_cpu_hours),
        ("memory", "GiB-hours", parts.partly_idle_memory_gib_hours, parts.idle_nodes_memory_gib_hours),
        ("GPUs", "GPU-hours", parts.partly_idle_gpu_hours, parts.idle_nodes_gpu_hours),
    ):
        if idle is not None and whole is not None:
            yield name, f"{idle:,.0f}", f"{unit} that no job held there; nodes without jobs had {whole:,.0f}"


def _task_rows(out: ReplayOutcome, task: TaskRequest) -> Iterator[_TextRow]:
    how_long = f"for {task.shortest_s:.0f} s or longer"
    yield "room", f"{out.idle_node_hours:,.0f}", f"task-hours, {how_long}, nodes without jobs included"
    yield from _gain_rows(out, "task-hours", "them")


def _gain_rows(out: ReplayOutcome, unit: str, of_what: str) -> Iterator[_TextRow]:
    yield from _lent_rows(out, unit, of_what)
    yield from _work_rows(out)
    yield from _cost_rows(out)


def _print_groups(log: SiteLog, task: TaskRequest, lent: LentShares | None, how: str) -> None:
    all_nodes = share_outcome(log, lent)
    assert all_nodes is not None
    print_heading(f"Beside jobs, {how}, of the task-hours that would have fit")
    columns = ("nodes", "task-hours", "lent", "useful", "GPU-hours", "of idle GPUs", "CPU-hours", "of idle CPUs")
    of_all = ShareRow("", "all nodes", len(log.holes.node_names), all_nodes)
    print_table(("", *columns), (_group_cells(row) for row in (of_all, *share_rows(log, lent))), right=columns)
    if task.keep != Amount():
        click.echo(f"Of each node {task.keep} are kept back (lend.keep).")


def _group_cells(row: ShareRow) -> tuple[str, ...]:
    out = row.outcome
    fitting, lent = out.partly_fitting_task_hours or 0.0, out.partly_lent_task_hours or 0.0
    gpus, cpus = out.partly_lent_gpu_hours or 0.0, out.partly_lent_cpu_hours or 0.0
    return (
        f"{row.what} {row.name}".strip(),
        f"{row.nodes:,}",
        f"{fitting:,.0f}",
        _percent(lent, fitting),
        _percent(out.partly_useful_task_hours, fitting),
        f"{gpus:,.0f}",
        _percent(gpus, out.partly_idle_gpu_hours),
        f"{cpus:,.0f}",
        _percent(cpus, out.partly_idle_cpu_hours),
    )


def _lent_rows(out: ReplayOutcome, unit: str, of_what: str) -> Iterator[_TextRow]:
    for name, hours in (("lent", out.lent_node_hours), ("useful", out.useful_node_hours)):
        yield name, f"{hours:,.0f}", f"{unit}, {_percent(hours, out.idle_node_hours)} of {of_what}"


def _work_rows(out: ReplayOutcome) -> Iterator[_TextRow]:
    nodes = f"of the same trainers on {out.dedicated_nodes:,.1f} dedicated nodes"
    yield "work", or_nothing(out.u_work, _FOUR_DIGITS), f"{nodes}, in the objective's unit"
    best = "of the best division at every instant, changes costing nothing"
    yield "U oracle", or_nothing(out.u_oracle, _FOUR_DIGITS), best
    yield "samples", f"{out.samples:.4g}", ""
    yield "U", or_nothing(out.u_dedicated, _FOUR_DIGITS), f"of the samples {nodes}, as the paper counts"


def _cost_rows(out: ReplayOutcome) -> Iterator[_TextRow]:
    rescale_lost_s = out.scale_up_lost_s + out.scale_down_lost_s
    lost, paused = (f"{lost_s / SECONDS_PER_HOUR:,.1f}" for lost_s in (out.eviction_lost_s, out.eviction_pause_s))
    forced = f"nodes; {out.forced_rescales:,} forced rescales"
    yield "evictions", f"{out.evictions:,}", f"{forced}, {lost} h of work and {paused} h of pauses lost"
    yield "rescales", f"{out.rescales:,}", f"decided, {rescale_lost_s / SECONDS_PER_HOUR:,.1f} h lost"
    yield "starts", f"{out.starts:,}", f"{out.start_lost_s / SECONDS_PER_HOUR:,.1f} h lost"


def _site_row(site: SiteOutcome) -> _TextRow:
    met = f"of {site.site_starts:,} that started on idle nodes found fragments there"
    return "site's jobs", f"{site.site_delayed:,}", f"{met} (how much later they start: docs/evidence/harm.md)"


def _percent(part: float | None, whole: float | None) -> str:
    return NOTHING if part is None or not whole else f"{part / whole:.1%}"


def _with_plain_spaces(text: str) -> str:
    """The text without no-break spaces: in terminals people search, and programs split."""
    return text.replace("\N{NO-BREAK SPACE}", " ")
