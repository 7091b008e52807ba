"""``freetrain ledger``: sums of what the daemon lent; ``history``: its fragments; ``audit``: orders to Slurm."""

from __future__ import annotations

import shlex
import socket
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import date, datetime
from functools import partial
from math import inf
from pathlib import Path
from typing import Any

import click

from freetrain import __version__
from freetrain.cli.helping import RenamedOption, command
from freetrain.cli.listing import LISTING, Shape, command_line
from freetrain.cli.options import option, read_nodes, read_time, since_option
from freetrain.cli.site import SiteContext
from freetrain.client.daemons_ledger import Books, Key, course_of, entries_of, month_of, read_books
from freetrain.config import Config
from freetrain.core.fragment import Fragment, LentTime
from freetrain.daemon.reports.lent_days import day_of, start_of
from freetrain.durations import show_duration
from freetrain.errors import ExitCode, FreetrainError, InputError
from freetrain.lending.lent_time import Check, compare
from freetrain.replay.worth import worth_of
from freetrain.showing.words import NOTHING, or_nothing, show_time

Entries = Sequence[tuple[Sequence[str], LentTime]]
"""Lines of the ledger: the values of its keys, and the time that was lent."""

_FORMAT = "freetrain-ledger/1"
_FIGURES = ("STARTS", "EVICTIONS", "NODE-HOURS", "USEFUL", "LOST-STARTS", "LOST-ENDS")


def _read_keys(_context: click.Context, _option: click.Parameter, text: str) -> tuple[Key, ...]:
    names = dict.fromkeys(name.strip() for name in text.split(",") if name.strip())
    try:
        return tuple(map(Key, names))
    except ValueError as error:
        raise click.BadParameter(f"write some of {', '.join(Key)}, as month,account") from error


_time = partial(option, callback=read_time, type=str, metavar="TIME")


@command("ledger", context_settings=LISTING, first=("--month", "--from", "--until", "--by", "--report"))
def ledger_command(
    *,
    site: SiteContext,
    month: str | None = option(
        "--month", "This month, or last: the one before  [default: the present one].", metavar="YYYY-MM"
    ),
    from_s: float | None = _time("--from", "From then on, as 2026-01-31T08:00 or now-30days."),
    until_s: float | None = _time("--until", "Until then  [default: now]."),
    keys: tuple[Key, ...] = option(
        "--by",
        f"For each of what there is a line: {', '.join(Key)}.",
        callback=_read_keys,
        default="account,user",
        metavar="KEY,…",
    ),
    check: bool = option("--check", "List instead where Slurm's accounting (sacct) tells something else."),
    report_path: Path | None = option(
        "--report", "Write all of it as a page, too, with the delays of the site's jobs."
    ),
    shape: Shape,
) -> None:
    """Add up the node-hours that were lent in a month or from TIME until TIME, and how many of them were lost.

    Lost are those of all nodes of a training for as long as its tag says that starting, growing or shrinking
    takes; LOST-ENDS are those after nodes went (evicted, released, failed), and what is left is USEFUL. Each
    second of a node counts once, within the range. Months, days and times without a zone are this machine's. The
    report and --json tell GPU-hours, energy and money, where [prices] of the settings say what a node costs.

    With --check the exit status is 1 if there are differences. This is for accounts that may read the daemon's
    database.
    """
    now_s = time.time()
    from_s, until_s = _range(month, from_s, until_s, now_s)
    shape.begin(site.standing)
    books = read_books(site.ledger(), from_s, until_s, now_s, check or Key.TRAINING in keys)
    if check:
        differs = check_listing(books, site, shape)
        raise SystemExit(ExitCode.FAILED if differs else ExitCode.OK)
    if report_path is not None:
        write_report_of(books, site.config, report_path)
    entries = entries_of(books, keys)
    if not shape.as_json and not shape.is_for_scripts:
        click.echo(f"Lent from {show_time(from_s)} until {show_time(until_s)}:")
    document = _document(books, entries, keys, site)
    columns = (*(key.upper() for key in keys), *_FIGURES)
    rows = _rows(entries, with_total=not shape.is_for_scripts)
    shape.print(document, columns, rows, right=_FIGURES, otherwise="Nothing was lent in that time.")


def _document(books: Books, entries: Entries, keys: Sequence[Key], site: SiteContext) -> dict[str, Any]:
    found, prices = [], site.config.prices
    for names, lent in entries:
        worth = worth_of(lent.lent_s / 3600, lent.useful_s / 3600, prices)
        found.append(
            {
                **dict(zip(map(str, keys), names, strict=True)),
                "starts": lent.starts,
                "evictions": lent.evictions,
                "node_hours": lent.lent_s / 3600,
                "useful_node_hours": lent.useful_s / 3600,
                "lost_to_starts_node_hours": lent.lost_to_starts_s / 3600,
                "lost_to_ends_node_hours": lent.lost_to_ends_s / 3600,
                "worth": asdict(worth) if prices.say_anything else None,
            }
        )
    delays = {"jobs": len(books.harms), "seconds": sum(harm.delay_s for harm in books.harms)}
    return site.document(_FORMAT, **_range_of(books), entries=found, delays=delays)


def _range_of(books: Books) -> dict[str, float]:
    return {"from": books.from_s, "until": books.until_s}


def _rows(entries: Entries, *, with_total: bool) -> list[tuple[str, ...]]:
    rows = [(*(name or NOTHING for name in names), *_cells(time_)) for names, time_ in entries]
    if len(rows) > 1 and with_total:
        total = sum((time_ for _, time_ in entries), LentTime())
        rows.append((*("total" if not number else "" for number in range(len(entries[0][0]))), *_cells(total)))
    return rows


def _range(month: str | None, from_s: float | None, until_s: float | None, now_s: float) -> tuple[float, float]:
    if month and (from_s is not None or until_s is not None):
        raise InputError("Either a month is given, or times.", "Leave one of them out.")
    if from_s is None:
        present = day_of(until_s or now_s)
        first = _read_month(month) if month and month != "last" else month_of(present, -1 if month else 0)
        from_s = start_of(first)
        if month:
            until_s = start_of(month_of(first, 1))
    until_s = min(now_s if until_s is None else until_s, now_s)
    if until_s <= from_s:
        raise InputError("The range that is given is empty, or lies in the future.")
    return from_s, until_s


def _read_month(month: str) -> date:
    try:
        return datetime.strptime(month, "%Y-%m").date()
    except ValueError as error:
        raise InputError(f"{month!r} is not a month.", "Write it as 2026-01, or last.") from error


def _cells(found: LentTime) -> Sequence[str]:
    hours = (found.lent_s, found.useful_s, found.lost_to_starts_s, found.lost_to_ends_s)
    return (str(found.starts), str(found.evictions), *(f"{seconds / 3600:.2f}" for seconds in hours))


_MOST_DAYS = 93
"""Days of the longest range that is shown by day; a longer one is shown by month."""
_DAY_S = 86400.0


def write_report_of(books: Books, config: Config, path: Path) -> None:
    """Write the report's page.

    Raises:
        StateError: the file cannot be written.
    """
    from freetrain.replay.report import write_page  # here: Jinja and NumPy come with them
    from freetrain.replay.report.ledger_page import LedgerReport, render_ledger

    step = Key.DAY if books.until_s - books.from_s <= _MOST_DAYS * _DAY_S else Key.MONTH
    kept_since_s = books.now_s - config.state.keep
    report = LedgerReport(
        title=f"{socket.gethostname()}, partition {config.slurm.partition}",
        from_s=books.from_s,
        until_s=books.until_s,
        is_over=books.until_s < books.now_s,
        course=course_of(books, step),
        accounts=entries_of(books, (Key.ACCOUNT,)),
        users=entries_of(books, (Key.ACCOUNT, Key.USER)),
        harms=books.harms,
        delays_since_s=kept_since_s if kept_since_s > books.from_s else None,
        prices=config.prices,
        version=__version__,
        command=command_line(),
    )
    write_page(path, render_ledger(report))


_CHECK_FORMAT = "freetrain-ledger-check/1"
_CHECK_COLUMNS = ("JOB", "NODE", "STARTED", "LEDGER", "ACCOUNTING", "WHAT")
# So many jobs are named in one question to accounting.
_AT_ONCE = 200


def check_listing(books: Books, site: SiteContext, shape: Shape) -> bool:
    """Print the differences between the ledger and Slurm's accounting; whether there are any.

    Raises:
        FreetrainError: there is no accounting, or it does not answer.
    """
    if not site.slurm.site(inf, 0).settings.has_accounting:
        raise FreetrainError(
            "Slurm keeps no accounting here (AccountingStorageType), so there is nothing to check against.",
            exit_code=ExitCode.CONFIGURATION,
        )
    reaching = [lending for lending in books.lendings if lending.end_s > books.from_s]
    arrays = sorted({row.job.partition("_")[0] for row in reaching})
    groups = (arrays[first : first + _AT_ONCE] for first in range(0, len(arrays), _AT_ONCE))
    runs = [run for group in groups for run in site.slurm.runs(group)]
    check = compare(books.lendings, runs, books.from_s, books.until_s, books.now_s)
    document = site.document(_CHECK_FORMAT, **_range_of(books), **_check_facts(check))
    rows = [
        (
            found.job, found.node or NOTHING, show_time(found.start_s), or_nothing(found.ledger_s, "{:.0f}"),
            or_nothing(found.accounting_s, "{:.0f}"), found.what,
        )
        for found in check.differences
    ]  # fmt: skip
    shape.print(document, _CHECK_COLUMNS, rows, ("LEDGER", "ACCOUNTING"))
    if not shape.as_json:
        click.echo(_summary(check), err=shape.is_for_scripts)
    return bool(check.differences)


def _summary(check: Check) -> str:
    hours = f"{check.ledger_s / 3600:.2f} node-hours in the ledger, {check.accounting_s / 3600:.2f} in accounting"
    one_sided = sum(None in (difference.ledger_s, difference.accounting_s) for difference in check.differences)
    differ, times = len(check.differences), check.compared + one_sided
    verb = "differ" if differ > 1 else "differs"
    return f"{hours}: {differ or 'none'} of {times} times that a node was lent {verb}."


def _check_facts(check: Check) -> dict[str, object]:
    return {
        "compared": check.compared,
        "ledger_node_hours": check.ledger_s / 3600,
        "accounting_node_hours": check.accounting_s / 3600,
        "differences": [
            {
                "job": difference.job,
                "node": difference.node or None,
                "started": difference.start_s,
                "ledger_s": difference.ledger_s,
                "accounting_s": difference.accounting_s,
            }
            for difference in check.differences
        ],
    }


_COLUMNS = ("JOB", "TRAINER", "USER", "NODE", "STARTED", "LASTED", "END", "DECISION")


@command("history", context_settings=LISTING, first=("--since", "--user", "--trainer", "--nodelist", "--limit"))
def history_command(
    *,
    site: SiteContext,
    since_s: float = since_option,
    trainer: str | None = option("--trainer", "Only this training's.", metavar="ID"),
    user: str | None = option("-u --user", "Only this user's."),
    nodes: str | None = option(
        "-w --nodelist --node",
        "Only what ran on these nodes, as n07, n[07-09] or @group.",
        cls=RenamedOption,
        metavar="NODES",
    ),
    most: int = option(
        "--limit --most",
        "Only the last so many of them.",
        cls=RenamedOption,
        type=click.IntRange(1),
        default=10_000,
    ),
    shape: Shape,
) -> None:
    """List the fragments: which node was lent to which training, for how long, and how that ended.

    Each is one time; a task that was requeued has several. They are remembered for state.keep; the sums of
    'freetrain ledger' go back further. This is for accounts that may read the daemon's database.
    """
    chosen = None if nodes is None else read_nodes(nodes)
    shape.begin(site.standing)
    now_s = time.time()
    # One more than is shown: so it is known whether there are more.
    found = site.ledger().history(since_s, trainer, user, chosen, most + 1)
    if len(found) > most:
        click.echo(f"Only the last {most} are shown; --limit shows more.", err=True)
    rows = [_row(fragment, owner, now_s) for fragment, owner in found[-most:]]
    document = site.document("freetrain-history/1", fragments=rows)
    otherwise = "Nothing was lent in that time."
    shape.print(document, _COLUMNS, map(_fragment_cells, rows), right=("LASTED",), otherwise=otherwise)


def _row(fragment: Fragment, user: str, now_s: float) -> dict[str, Any]:
    """A fragment as ``--json`` shows it, times in UTC epoch seconds; null: not so far, or unknown."""
    until_s = now_s if fragment.ended_s is None else fragment.ended_s
    return {
        "job": fragment.job,
        "trainer": fragment.trainer,
        "user": user,
        "node": fragment.node,
        "asked": fragment.asked_s,
        "started": fragment.started_s,
        "ended": fragment.ended_s,
        "lasted_s": None if fragment.started_s is None else max(0.0, until_s - fragment.started_s),
        "state": fragment.state,
        "end": fragment.end,
        "decision": fragment.decision,
    }


def _fragment_cells(row: Mapping[str, Any]) -> tuple[str, ...]:
    lasted = NOTHING if row["lasted_s"] is None else show_duration(row["lasted_s"])
    who = (row["job"], row["trainer"], row["user"] or NOTHING, row["node"])
    return (*who, show_time(row["started"]), lasted, row["end"] or row["state"], row["decision"] or NOTHING)


@command("audit", context_settings=LISTING, first=("--since", "--decision", "--json", "--format", "--config"))
def audit_command(
    *,
    site: SiteContext,
    since_s: float = since_option,
    decision: str | None = option("--decision", "Only what this decision led to.", metavar="RUN:NUMBER"),
    shape: Shape,
) -> None:
    """List the commands that were given to Slurm: time, actor, reason, decision and result.

    Besides the daemon's own there are those that people gave by 'freetrain cancel', 'panic', 'pause', 'resume',
    'drain' and 'undrain', as far as they may write the daemon's database; what others did it sees in Slurm.

    A decision can be solved again with 'freetrain solve --decision RUN:NUMBER'.
    """
    shape.begin(site.standing)
    rows: list[dict[str, Any]] = [
        {
            "time": row.time_s,
            "actor": row.actor,
            "why": row.why,
            "decision": row.decision,
            "command": row.argv,
            "result": row.result,
            "return_code": row.return_code,
        }
        for row in site.ledger().commands(since_s)
        if decision in (None, row.decision)
    ]
    columns = ("TIME", "ACTOR", "DECISION", "WHY", "COMMAND", "RESULT", "CODE")
    document = site.document("freetrain-audit/1", commands=rows)
    shape.print(document, columns, map(_order_cells, rows), otherwise="Nothing was done in that time.")


def _order_cells(row: Mapping[str, Any]) -> tuple[str, ...]:
    cause = (row["actor"], row["decision"] or NOTHING, row["why"])
    outcome = (row["result"], or_nothing(row["return_code"], "{}"))
    return (show_time(row["time"]), *cause, shlex.join(row["command"]) or NOTHING, *outcome)
