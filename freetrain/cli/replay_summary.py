"""What ``freetrain replay`` prints: the outcome in a few lines, or all of it as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import click

from freetrain import __version__
from freetrain.cli.output import print_figures, print_heading, print_table
from freetrain.cli.summary_of_shares import print_shares
from freetrain.config import Prices
from freetrain.core.holes import SECONDS_PER_HOUR
from freetrain.replay.full_hours import without_empty_hours
from freetrain.replay.logs import RowCount, SiteLog
from freetrain.replay.outcome import Outcome, SiteOutcome, definitions, outcome_to_dict
from freetrain.replay.share_outcome import ShareOutcome, share_document
from freetrain.replay.study import DaemonStudy, Study
from freetrain.replay.worth import Worth, worth_of, worth_rows
from freetrain.showing.words import NOTHING, show_time

RESULT_FORMAT = "freetrain-replay/1"


@dataclass(frozen=True, slots=True)
class Result:
    """A replay with all that is to be said about it."""

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


def result_document(result: Result) -> dict[str, Any]:
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
        "shares": share_document(log),
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


def print_definitions() -> None:
    """What each figure means."""
    print_table(
        ("figure", "definition"),
        {**definitions(), **definitions(SiteOutcome), **definitions(ShareOutcome)}.items(),
    )


def print_summary(result: Result) -> None:
    """The outcome in a few lines."""
    for warning in result.log.warnings:
        click.echo(f"Warning: {warning}")
    _print_rows(result.log)
    if result.study.as_daemon is not None:
        print_heading("What the daemon would have got")
        print_figures(_daemon_rows(result.study.as_daemon))
    print_heading("What the holes allow")
    print_figures(_outcome_rows(result.log, result.study))
    print_shares(result.log)
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
    click.echo(
        f"Window: {show_time(holes.from_s)} to {show_time(holes.until_s)} "
        f"({holes.duration_s / 86400:.1f} days), {len(holes.node_names):,} nodes, {len(holes):,} holes"
    )


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
        f"node-hours, {_share(out.idle_node_hours, capacity)} of the machine",
    )
    yield (
        "lent",
        f"{out.lent_node_hours:,.0f}",
        f"node-hours, {_share(out.lent_node_hours, out.idle_node_hours)} of idle",
    )
    yield (
        "useful",
        f"{out.useful_node_hours:,.0f}",
        f"node-hours, {_share(out.useful_node_hours, out.idle_node_hours)} of idle",
    )
    yield from _work_rows(out)
    yield from _full_hours_rows(log, done)
    yield from _trouble_rows(out)
    yield "trainers", f"{out.trainers_completed:,}", f"completed of {out.trainers_admitted:,} admitted"
    yield (
        "decisions",
        f"{out.decisions:,}",
        f"for {out.events:,} events in {done.wall_s:,.1f} s ({done.events_per_s:,.0f} events/s)",
    )
    yield "solve", f"{1e3 * out.solve_p50_s:.2g} ms", _solve_words(out)


def _full_hours_rows(log: SiteLog, done: Study) -> Iterator[tuple[str, str, str]]:
    if log.empty is None or log.empty.left_out:
        return
    rest = without_empty_hours(done.record.timeline, log.empty, log.holes.until_s)
    yield (
        "full hours",
        f"{rest.idle_node_hours:,.0f}",
        f"node-hours idle, {rest.lent_node_hours:,.0f} of them lent, {rest.samples:.4g} samples, without the "
        f"{log.empty.hours:,.0f} hours in which at least 95 % of the machine was idle",
    )


def daemon_document(done: DaemonStudy) -> dict[str, Any]:
    """What the daemon would have got, for programs."""
    return {
        "outcome": outcome_to_dict(done.outcome),
        "site": outcome_to_dict(done.site),
        "forecast": asdict(done.record.forecast),
        "wall_s": done.wall_s,
    }


def _daemon_rows(done: DaemonStudy) -> Iterator[tuple[str, str, str]]:
    out, site = done.outcome, done.site
    lent, useful = (
        _share(out.lent_node_hours, out.idle_node_hours),
        _share(out.useful_node_hours, out.idle_node_hours),
    )
    yield "lent", f"{out.lent_node_hours:,.0f}", f"node-hours, {lent} of idle"
    yield "useful", f"{out.useful_node_hours:,.0f}", f"node-hours, {useful} of idle"
    yield from _work_rows(out)
    yield from _trouble_rows(out)
    yield (
        "site's jobs",
        f"{site.site_delayed:,}",
        f"of {site.site_starts:,} that started on idle nodes waited for fragments, together "
        f"{site.site_delay_s:,.0f} s, at most {site.site_delay_max_s:,.1f} s",
    )
    yield "decisions", f"{out.decisions:,}", f"in {done.wall_s:,.1f} s"


def _work_rows(out: Outcome) -> Iterator[tuple[str, str, str]]:
    nodes = f"of the same trainers on {out.dedicated_nodes:,.1f} dedicated nodes"
    yield "work", _u(out.u_work), f"{nodes}, in the objective's unit"
    yield "U oracle", _u(out.u_oracle), "of the best division at every instant, changes costing nothing"
    yield "samples", f"{out.samples:.4g}", ""
    yield "U", _u(out.u_dedicated), f"of the samples {nodes}, as the paper counts"


def _trouble_rows(out: Outcome) -> Iterator[tuple[str, str, str]]:
    rescale_lost_s = out.scale_up_lost_s + out.scale_down_lost_s
    yield (
        "evictions",
        f"{out.evictions:,}",
        f"nodes in {out.forced_rescales:,} forced rescales, {out.eviction_lost_s / SECONDS_PER_HOUR:,.1f} h lost",
    )
    yield "rescales", f"{out.rescales:,}", f"decided, {rescale_lost_s / SECONDS_PER_HOUR:,.1f} h lost"
    yield "starts", f"{out.starts:,}", f"{out.start_lost_s / SECONDS_PER_HOUR:,.1f} h lost"


def _solve_words(out: Outcome) -> str:
    statuses = ", ".join(f"{count:,} {status}" for status, count in out.statuses.items())
    return f"median; p95 {1e3 * out.solve_p95_s:.2g} ms, max {1e3 * out.solve_max_s:.2g} ms; {statuses or 'none'}"


def _share(part: float, whole: float) -> str:
    return f"{part / whole:.1%}" if whole > 0 else NOTHING


def _u(value: float | None) -> str:
    return NOTHING if value is None else f"{value:.4f}"
