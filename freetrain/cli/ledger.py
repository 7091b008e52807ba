"""``freetrain ledger``: node-hours lent, useful and lost, by user and account, as a table or a page."""

from __future__ import annotations

import socket
import time
from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Any

import click

from freetrain import __version__
from freetrain.cli.helping import command
from freetrain.cli.ledger_check import check_listing
from freetrain.cli.ledger_rows import Books, Key, course_of, entries_of, read_books
from freetrain.cli.listing import LISTING, Shape, listing_options
from freetrain.cli.options import config_option, read_time
from freetrain.cli.output import command_line
from freetrain.client.daemons_ledger import daemons_ledger
from freetrain.config import Config, Prices, load_config
from freetrain.core.fragment import LentTime
from freetrain.daemon.reports.standing import Standing, find_standing
from freetrain.errors import ExitCode, InputError
from freetrain.replay.report.ledger_page import LedgerReport, write_ledger
from freetrain.replay.worth import worth_of
from freetrain.showing.words import NOTHING, show_time
from freetrain.slurm.opening import OpenedWhenAsked

Entries = Sequence[tuple[Sequence[str], LentTime]]
"""What there is a line for, by the keys, and what it came to."""

_FORMAT = "freetrain-ledger/1"
_FIGURES = ("STARTS", "EVICTIONS", "NODE-HOURS", "USEFUL", "LOST-STARTS", "LOST-ENDS")


def _read_keys(_context: click.Context, _option: click.Parameter, text: str) -> tuple[Key, ...]:
    names = dict.fromkeys(name.strip() for name in text.split(",") if name.strip())
    try:
        return tuple(map(Key, names))
    except ValueError as error:
        raise click.BadParameter(f"write some of {', '.join(Key)}, as month,account") from error


@command("ledger", context_settings=LISTING, first=("--month", "--from", "--until", "--by", "--report"))
@config_option
@click.option(
    "--month", metavar="YYYY-MM", help="This month, or last: the one before  [default: the present one]."
)
@click.option(
    "--from", "from_s", callback=read_time, metavar="TIME", help="From then on, as 2026-01-31T08:00 or now-30days."
)
@click.option("--until", "until_s", callback=read_time, metavar="TIME", help="Until then  [default: now].")
@click.option(
    "--by", "keys", callback=_read_keys, default="account,user", show_default=True, metavar="KEY,…",
    help=f"For each of what there is a line: {', '.join(Key)}.",
)  # fmt: skip
@click.option("--check", is_flag=True, help="List instead where Slurm's accounting (sacct) tells something else.")
@click.option(
    "--report", "report_path", type=click.Path(path_type=Path), metavar="FILE",
    help="Write all of it as a page, too, with the delays of the site's jobs.",
)  # fmt: skip
@listing_options
def ledger_command(
    config_path: Path | None,
    month: str | None,
    from_s: float | None,
    until_s: float | None,
    keys: tuple[Key, ...],
    check: bool,
    report_path: Path | None,
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
    config, now_s = load_config(config_path).config, time.time()
    from_s, until_s = _range(month, from_s, until_s, now_s)
    standing = find_standing(config)
    shape.begin(standing)
    books = read_books(daemons_ledger(config), from_s, until_s, now_s, check or Key.TRAINING in keys)
    if check:
        raise SystemExit(ExitCode.FAILED if _check(books, config, standing, shape) else ExitCode.OK)
    if report_path is not None:
        from freetrain.cli.ledger import write_report_of  # here: with it come Jinja and NumPy

        write_report_of(books, config, report_path)
    entries = entries_of(books, keys)
    if not shape.as_json and not shape.is_for_scripts:
        click.echo(f"Lent from {show_time(from_s)} until {show_time(until_s)}:")
    document = _document(books, entries, keys, config, standing)
    columns = (*(key.upper() for key in keys), *_FIGURES)
    rows = _rows(entries, with_total=not shape.is_for_scripts)
    shape.print(document, columns, rows, right=_FIGURES, otherwise="Nothing was lent in that time.")


def _document(
    books: Books, entries: Entries, keys: Sequence[Key], config: Config, standing: Standing
) -> dict[str, Any]:
    """All of it, for programs."""
    return {
        "format": _FORMAT,
        "daemon": standing.document(),
        "from": books.from_s,
        "until": books.until_s,
        "entries": [
            {**dict(zip(map(str, keys), names, strict=True)), **_facts(time_, config.prices)}
            for names, time_ in entries
        ],
        "delays": {"jobs": len(books.harms), "seconds": sum(harm.delay_s for harm in books.harms)},
    }


def _rows(entries: Entries, *, with_total: bool) -> list[tuple[str, ...]]:
    """The lines of the table, and one of all together where there are several."""
    rows = [(*(name or NOTHING for name in names), *_cells(time_)) for names, time_ in entries]
    if len(rows) > 1 and with_total:
        total = sum((time_ for _, time_ in entries), LentTime())
        rows.append((*("total" if not number else "" for number in range(len(entries[0][0]))), *_cells(total)))
    return rows


def _check(books: Books, config: Config, standing: Standing, shape: Shape) -> bool:
    """Print what accounting tells differently; whether there is anything."""
    gateway = OpenedWhenAsked(config.slurm.backend, config.slurm.timeout)
    return check_listing(books, gateway, standing, shape)


def _range(month: str | None, from_s: float | None, until_s: float | None, now_s: float) -> tuple[float, float]:
    """From when until when; never later than now."""
    if month and (from_s is not None or until_s is not None):
        raise InputError("Either a month is given, or times.", "Leave one of them out.")
    if from_s is None:
        present = datetime.fromtimestamp(until_s or now_s).astimezone()
        first = _last_month(present) if month == "last" else _first_of(month or f"{present:%Y-%m}")
        from_s = first.timestamp()
        if month:
            until_s = _next_month(first).timestamp()
    until_s = min(now_s if until_s is None else until_s, now_s)
    if until_s <= from_s:
        raise InputError("The range that is given is empty, or lies in the future.")
    return from_s, until_s


def _first_of(month: str) -> datetime:
    try:
        return datetime.strptime(month, "%Y-%m").astimezone()
    except ValueError as error:
        raise InputError(f"{month!r} is not a month.", "Write it as 2026-01, or last.") from error


def _last_month(present: datetime) -> datetime:
    year, month = divmod(present.year * 12 + present.month - 2, 12)
    return datetime(year, month + 1, 1).astimezone()


def _next_month(first: datetime) -> datetime:
    year, month = divmod(first.year * 12 + first.month, 12)
    return datetime(year, month + 1, 1).astimezone()


def _cells(found: LentTime) -> Sequence[str]:
    hours = (found.lent_s, found.useful_s, found.lost_to_starts_s, found.lost_to_ends_s)
    return (str(found.starts), str(found.evictions), *(f"{seconds / 3600:.2f}" for seconds in hours))


def _facts(found: LentTime, prices: Prices) -> dict[str, Any]:
    worth = worth_of(found.lent_s / 3600, found.useful_s / 3600, prices)
    return {
        "starts": found.starts,
        "evictions": found.evictions,
        "node_hours": found.lent_s / 3600,
        "useful_node_hours": found.useful_s / 3600,
        "lost_to_starts_node_hours": found.lost_to_starts_s / 3600,
        "lost_to_ends_node_hours": found.lost_to_ends_s / 3600,
        "worth": asdict(worth) if prices.say_anything else None,
    }


_MOST_DAYS = 93
"""A longer range is shown by month."""
_DAY_S = 86400.0


def write_report_of(books: Books, config: Config, path: Path) -> None:
    """Write the page.

    Raises:
        StateError: the file cannot be written.
    """
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
    write_ledger(path, report)
