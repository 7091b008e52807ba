"""What ``freetrain replay`` prints: the outcome in a few lines."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import click

from freetrain.cli.output import print_figures, print_heading, print_table
from freetrain.cli.replay_document import Result
from freetrain.cli.summary_of_shares import print_shares
from freetrain.cli.summary_rows import part_of, site_row, trouble_rows, u_words, work_rows
from freetrain.core.holes import SECONDS_PER_HOUR
from freetrain.replay.estimate import DaemonEstimate
from freetrain.replay.logs import RowCount, SiteLog
from freetrain.replay.outcome import Outcome, SiteOutcome, definitions, without_empty_hours
from freetrain.replay.share_outcome import ShareOutcome
from freetrain.replay.study import DaemonStudy, Study
from freetrain.replay.worth import worth_rows
from freetrain.showing.words import count, duration, milliseconds, show_time


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


def print_summary(result: Result) -> None:
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


def _estimate_rows(found: DaemonEstimate, allowed: Outcome) -> Iterator[tuple[str, str, str]]:
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


def _solve_words(out: Outcome) -> str:
    statuses = ", ".join(f"{count:,} {status}" for status, count in out.statuses.items())
    p95, most = milliseconds(out.solve_p95_s), milliseconds(out.solve_max_s)
    return f"median; p95 {p95}, max {most}; {statuses or 'none'}"
