"""What ``freetrain replay`` prints: the outcome in a few lines, or as JSON."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import click

from freetrain import __version__
from freetrain.cli.output import print_figures, print_heading, print_table
from freetrain.config import Prices
from freetrain.core.amounts import Amount
from freetrain.core.holes import SECONDS_PER_HOUR
from freetrain.replay.estimate import DaemonEstimate
from freetrain.replay.logs import RowCount, SiteLog, TaskRequest
from freetrain.replay.outcome import ReplayOutcome, SiteOutcome, definitions, outcome_to_dict, without_empty_hours
from freetrain.replay.share_outcome import LentShares, ShareOutcome, ShareRow, lent_of, share_outcome, share_rows
from freetrain.replay.study import DaemonStudy, Study
from freetrain.replay.worth import Worth, worth_of, worth_rows
from freetrain.showing.words import NOTHING, count, duration, milliseconds, show_time

RESULT_FORMAT = "freetrain-replay/1"


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
        """What the shown replay is worth; None: the site gave no prices."""
        if self.prices is None:
            return None
        outcome = (self.study.as_daemon or self.study).outcome
        return worth_of(outcome.lent_node_hours, outcome.useful_node_hours, self.prices, outcome.lent_watts)


def result_document(result: ReplayResult) -> dict[str, Any]:
    """All of it, for programs."""
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
        "outcome": outcome_to_dict(done.outcome),
        "forecast": asdict(done.record.forecast),
        "as_daemon": done.as_daemon and daemon_document(done.as_daemon),
        "estimate": done.estimate and asdict(done.estimate),
        "shares": share_document(log, done.on_shares),
        "worth": result.worth and asdict(result.worth),
        "wall_s": done.wall_s,
        "events_per_s": done.events_per_s,
    }


def _empty_hours(log: SiteLog, done: Study) -> dict[str, Any] | None:
    """The hours in which nearly the whole machine was idle, and the figures without them."""
    empty = log.empty
    if empty is None:
        return None
    without = None if empty.left_out else without_empty_hours(done.record.timeline, empty, log.holes.until_s)
    return {
        "hours": empty.hours,
        "idle_node_hours": empty.idle_node_hours,
        "left_out": empty.left_out,
        "without": without and asdict(without),
    }


def daemon_document(done: DaemonStudy) -> dict[str, Any]:
    """What the daemon would have got, for programs."""
    return {
        "outcome": outcome_to_dict(done.outcome),
        "site": outcome_to_dict(done.site),
        "forecast": asdict(done.record.forecast),
        "wall_s": done.wall_s,
    }


def share_document(log: SiteLog, played: Study | None = None) -> dict[str, Any] | None:
    """What lay idle on used nodes, and what was lent of it, for programs; None where the log does not show it."""
    shares = log.shares
    if shares is None:
        return None
    parts = {"cpus": shares.cpus, "memory": shares.memory_bytes, "gpus": shares.gpus}
    daemon = played.as_daemon if played is not None else None
    return {
        **_lent_document(log, lent_of(played, log)),
        "at_least": [name for name, part in parts.items() if part is not None and part.is_least],
        "spread_share": shares.spread,
        "task": log.places and asdict(log.places.task),
        "replay": played and outcome_to_dict(played.outcome),
        "as_daemon": daemon and {**daemon_document(daemon), "shares": _lent_document(log, lent_of(daemon, log))},
    }


def _lent_document(log: SiteLog, lent: LentShares | None) -> dict[str, Any]:
    """The figures of all nodes, and of groups of them, with what a replay lent."""
    outcome = share_outcome(log, lent)
    return {
        "outcome": outcome and asdict(outcome),
        "groups": [
            {"what": row.what, "name": row.name, "nodes": row.nodes, "outcome": asdict(row.outcome)}
            for row in share_rows(log, lent)
        ],
    }


def work_rows(out: ReplayOutcome) -> Iterator[tuple[str, str, str]]:
    """What was trained."""
    nodes = f"of the same trainers on {out.dedicated_nodes:,.1f} dedicated nodes"
    yield "work", u_words(out.u_work), f"{nodes}, in the objective's unit"
    yield "U oracle", u_words(out.u_oracle), "of the best division at every instant, changes costing nothing"
    yield "samples", f"{out.samples:.4g}", ""
    yield "U", u_words(out.u_dedicated), f"of the samples {nodes}, as the paper counts"


def trouble_rows(out: ReplayOutcome) -> Iterator[tuple[str, str, str]]:
    """What it cost the trainers."""
    rescale_lost_s = out.scale_up_lost_s + out.scale_down_lost_s
    lost, paused = (f"{lost_s / SECONDS_PER_HOUR:,.1f}" for lost_s in (out.eviction_lost_s, out.eviction_pause_s))
    forced = f"nodes in {out.forced_rescales:,} forced rescales"
    yield "evictions", f"{out.evictions:,}", f"{forced}, {lost} h of work and {paused} h of pauses lost"
    yield "rescales", f"{out.rescales:,}", f"decided, {rescale_lost_s / SECONDS_PER_HOUR:,.1f} h lost"
    yield "starts", f"{out.starts:,}", f"{out.start_lost_s / SECONDS_PER_HOUR:,.1f} h lost"


def outcome_rows(out: ReplayOutcome) -> Iterator[tuple[str, str, str]]:
    """Both."""
    yield from work_rows(out)
    yield from trouble_rows(out)


def site_row(site: SiteOutcome) -> tuple[str, str, str]:
    """What the site's jobs would have felt."""
    met = f"of {site.site_starts:,} that started on idle nodes found fragments there"
    return "site's jobs", f"{site.site_delayed:,}", f"{met} (how much later they start: docs/harm.md)"


def part_of(part: float | None, whole: float | None) -> str:
    """As a percentage."""
    return NOTHING if part is None or not whole else f"{part / whole:.1%}"


def u_words(value: float | None) -> str:
    """A utilisation."""
    return NOTHING if value is None else f"{value:.4f}"


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


def _print_groups(log: SiteLog, task: TaskRequest, lent: LentShares | None, how: str) -> None:
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


def _lent_rows(out: ReplayOutcome, task: TaskRequest) -> Iterator[tuple[str, str, str]]:
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


def print_definitions() -> None:
    """What each figure means."""
    print_table(
        ("figure", "definition"),
        {**definitions(), **definitions(SiteOutcome), **definitions(ShareOutcome)}.items(),
    )


def print_first(log: SiteLog, done: Study) -> None:
    """What is known first: what was read, and what the holes allow."""
    for warning in log.warnings:
        click.echo(f"Warning: {warning}")
    _print_rows(log)
    print_heading("What the holes allow")
    print_figures(_outcome_rows(log, done))
    sys.stdout.flush()


def print_summary(result: ReplayResult) -> None:
    """The rest, once that is known, too."""
    if result.study.as_daemon is not None:
        print_heading("What the daemon would have got")
        print_figures(_daemon_rows(result.study.as_daemon))
    if result.study.estimate is not None:
        print_heading("What the daemon would have got, estimated")
        print_figures(_estimate_rows(result.study.estimate, result.study.outcome))
    print_shares(result.log, result.study.on_shares)
    if result.prices and result.worth:
        print_heading("What it is worth")
        rows = worth_rows(result.worth, result.prices)
        print_figures((row.name, row.shown, row.reckoned) for row in rows)
    for note in result.log.notes:
        click.echo(f"Note: {note}")
    if result.report is not None:
        click.echo(f"Report: {result.report}")
    if result.run_id is not None:
        click.echo(f"Recorded as run {result.run_id}: freetrain runs show {result.run_id}")


def _print_rows(log: SiteLog) -> None:
    rows, holes = log.rows, log.holes
    click.echo(f"Read as {log.format}: {rows_sentence(rows)}")
    for reject in rows.first_rejects:
        click.echo(f"  {reject.file}:{reject.line}: {reject.reason}", err=True)
    if rows.rejected > len(rows.first_rejects):
        click.echo(
            f"  … and {rows.rejected - len(rows.first_rejects):,} more (--rejects FILE keeps all)", err=True
        )
    nodes, found = count(len(holes.node_names), "node"), count(len(holes), "hole")
    window = f"{show_time(holes.from_s)} to {show_time(holes.until_s)} ({duration(holes.duration_s)})"
    click.echo(_with_plain_spaces(f"Window: {window}, {nodes}, {found}"))


def _with_plain_spaces(text: str) -> str:
    """For terminals, where people search and programs split."""
    return text.replace("\N{NO-BREAK SPACE}", " ")


def rows_sentence(rows: RowCount) -> str:
    """How the rows add up."""
    ignored = ", ".join(f"{count:,} {reason}" for reason, count in rows.ignored.items())
    return (
        f"{rows.read:,} rows = {rows.used:,} used + {sum(rows.ignored.values()):,} ignored"
        f"{f' ({ignored})' if ignored else ''} + {rows.rejected:,} rejected"
    )


def _outcome_rows(log: SiteLog, done: Study) -> Iterator[tuple[str, str, str]]:
    out = done.outcome
    capacity = len(log.holes.node_names) * log.holes.duration_s / SECONDS_PER_HOUR
    yield (
        "idle",
        f"{out.idle_node_hours:,.0f}",
        f"node-hours, {part_of(out.idle_node_hours, capacity)} of the machine",
    )
    yield (
        "lent",
        f"{out.lent_node_hours:,.0f}",
        f"node-hours, {part_of(out.lent_node_hours, out.idle_node_hours)} of idle",
    )
    yield (
        "useful",
        f"{out.useful_node_hours:,.0f}",
        f"node-hours, {part_of(out.useful_node_hours, out.idle_node_hours)} of idle",
    )
    yield from work_rows(out)
    yield from _full_hours_rows(log, done)
    yield from trouble_rows(out)
    yield "trainers", f"{out.trainers_completed:,}", f"completed of {out.trainers_admitted:,} admitted"
    yield (
        "decisions",
        f"{out.decisions:,}",
        f"for {out.events:,} events in {done.wall_s:,.1f} s ({done.events_per_s:,.0f} events/s)",
    )
    yield "solve", milliseconds(out.solve_p50_s), _solve_words(out)


def _full_hours_rows(log: SiteLog, done: Study) -> Iterator[tuple[str, str, str]]:
    if log.empty is None or log.empty.left_out:
        return
    rest = without_empty_hours(done.record.timeline, log.empty, log.holes.until_s)
    yield (
        "full hours",
        f"{rest.idle_node_hours:,.0f}",
        f"node-hours idle, {rest.lent_node_hours:,.0f} of them lent, {rest.samples:.4g} samples, without the "
        f"{_with_plain_spaces(count(log.empty.hours, 'hour'))} in which at least 95 % of the machine was idle",
    )


def _daemon_rows(done: DaemonStudy) -> Iterator[tuple[str, str, str]]:
    out, site = done.outcome, done.site
    lent, useful = (
        part_of(out.lent_node_hours, out.idle_node_hours),
        part_of(out.useful_node_hours, out.idle_node_hours),
    )
    yield "lent", f"{out.lent_node_hours:,.0f}", f"node-hours, {lent} of idle"
    yield "useful", f"{out.useful_node_hours:,.0f}", f"node-hours, {useful} of idle"
    yield from work_rows(out)
    yield from trouble_rows(out)
    yield site_row(site)
    yield "decisions", f"{out.decisions:,}", f"in {done.wall_s:,.1f} s"


def _estimate_rows(found: DaemonEstimate, allowed: ReplayOutcome) -> Iterator[tuple[str, str, str]]:
    idle = allowed.idle_node_hours
    for name, hours in (("lent", found.lent_node_hours), ("useful", found.useful_node_hours)):
        part = f"{part_of(hours.value, idle)} ± {part_of(hours.within, idle)} of idle"
        yield name, f"{hours.value:,.0f}", f"± {hours.within:,.0f} node-hours, {part}"
    if found.work is not None:
        nodes = f"of the same trainers on {allowed.dedicated_nodes:,.1f} dedicated nodes"
        yield "work", u_words(found.work.value), f"± {u_words(found.work.within)} {nodes}"
    yield "from", f"{found.blocks:,}", _with_plain_spaces(f"of {blocks_sentence(found)}")
    yield "--exact", "", _with_plain_spaces(f"replays all of them, in about {duration(found.whole_s)}")


def blocks_sentence(found: DaemonEstimate) -> str:
    """What an estimate was made from."""
    blocks = count(found.of_blocks, "block")
    return f"{blocks} of {duration(found.block_s)}, spread over the log (seed {found.seed}); ± is a 95 % interval"


def _solve_words(out: ReplayOutcome) -> str:
    statuses = ", ".join(f"{count:,} {status}" for status, count in out.statuses.items())
    p95, most = milliseconds(out.solve_p95_s), milliseconds(out.solve_max_s)
    return f"median; p95 {p95}, max {most}; {statuses or 'none'}"
