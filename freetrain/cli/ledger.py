"""``freetrain ledger``: node-hours lent, useful and lost, by user and account, as a table or a page."""

from __future__ import annotations

import socket
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import date, datetime, timedelta
from enum import StrEnum
from math import inf
from pathlib import Path
from typing import Any

import click

from freetrain import __version__
from freetrain.cli.helping import command
from freetrain.cli.listing import LISTING, Shape, listing_options
from freetrain.cli.options import config_option, read_time
from freetrain.cli.output import command_line
from freetrain.client.daemons_ledger import daemons_store
from freetrain.config import Config, Prices, load_config
from freetrain.core.fragment import LentTime
from freetrain.core.harm import Harm
from freetrain.core.job import JobRun
from freetrain.core.known_trainer import KnownTrainer
from freetrain.daemon.reports.lent_days import costs_of, day_of, fragments_for, lendings_of, start_of
from freetrain.daemon.reports.standing import Standing, find_standing
from freetrain.errors import ExitCode, FreetrainError, InputError
from freetrain.lending.lent_time import LONGEST_LOSS_S, Check, Difference, Lending, compare, lent_times
from freetrain.replay.worth import worth_of
from freetrain.showing.words import NOTHING, show_time
from freetrain.slurm.gateway import Gateway
from freetrain.slurm.opening import OpenedWhenAsked
from freetrain.store.ledger import Ledger, LentDay


class Key(StrEnum):
    """What there can be a line for each of."""

    MONTH = "month"
    DAY = "day"
    ACCOUNT = "account"
    USER = "user"
    TRAINING = "training"


@dataclass(frozen=True, slots=True)
class Books:
    """What was lent in a range of time: whole days of it as sums, and the rest as lendings.

    Attributes:
        lendings: no node more than once at a time; those of a day before the range are among them.
        trainers: those of the lendings, by id.
        now_s: until when those last that have not ended.
        harms: delays of the site's jobs that started within the range.
        rest: the parts of the range, as from and until, of which there are no sums.
    """

    lendings: Sequence[Lending]
    trainers: Mapping[str, KnownTrainer]
    from_s: float
    until_s: float
    now_s: float
    harms: Sequence[Harm] = ()
    days: Sequence[LentDay] = ()
    rest: Sequence[tuple[float, float]] = ()


def read_books(ledger: Ledger, from_s: float, until_s: float, now_s: float, one_by_one: bool = False) -> Books:
    """The books of a range; with ``one_by_one`` every lending is wanted, so that no sums of days are of use.

    Raises:
        StateError: the database cannot be read.
    """
    summed_until_s = ledger.days.summed_until_s() or from_s
    first_day = day_of(from_s)
    first_s = start_of(first_day if start_of(first_day) == from_s else _next(first_day, Key.DAY))
    last_s = start_of(day_of(min(until_s, summed_until_s)))
    if one_by_one or first_s >= last_s:
        days, rest = list[LentDay](), [(from_s, until_s)]
    else:
        days, rest = ledger.days.between(first_s, last_s), [(from_s, first_s), (last_s, until_s)]
    rest = [(begin_s, end_s) for begin_s, end_s in rest if begin_s < end_s]
    found = {
        fragment.id: fragment for begin_s, end_s in rest for fragment in fragments_for(ledger, begin_s, end_s)
    }
    lendings = lendings_of(found.values(), now_s)
    harms = tuple(harm for harm in ledger.harms(from_s) if harm.started_s < until_s)
    trainers = ledger.trainers({lending.trainer for lending in lendings})
    return Books(lendings, trainers, from_s, until_s, now_s, harms, days, rest)


def entries_of(books: Books, keys: Sequence[Key]) -> list[tuple[tuple[str, ...], LentTime]]:
    """A line for each combination of the keys, in their order, with what it came to."""
    sums: defaultdict[tuple[str, ...], LentTime] = defaultdict(LentTime)

    def add(day: date, account: str, user: str, training: str, lent: LentTime) -> None:
        names = {
            Key.MONTH: f"{day:%Y-%m}",
            Key.DAY: f"{day}",
            Key.ACCOUNT: account,
            Key.USER: user,
            Key.TRAINING: training,
        }
        sums[tuple(names[key] for key in keys)] += lent

    step = next((key for key in (Key.DAY, Key.MONTH) if key in keys), None)
    for day, by_trainer in _parts(books, step):
        for id_, lent in by_trainer.items():
            trainer = books.trainers.get(id_)
            add(day, trainer.account if trainer else "", trainer.owner if trainer else "", id_, lent)
    for lent_day in books.days:
        add(day_of(lent_day.day_s), lent_day.account, lent_day.owner, "", lent_day.lent)
    return sorted(sums.items())


def course_of(books: Books, step: Key) -> list[tuple[date, LentTime]]:
    """Each day or month of the range, by its first day, with what it came to; empty ones are among them."""
    days = [day for day, _, _ in _steps(books.from_s, books.until_s, step)]
    sums = dict.fromkeys(days, LentTime())
    found = [(day, sum(by_trainer.values(), LentTime())) for day, by_trainer in _parts(books, step)]
    for day, lent in [*found, *((day_of(day.day_s), day.lent) for day in books.days)]:
        sums[max(first for first in days if first <= day)] += lent
    return list(sums.items())


def _parts(books: Books, step: Key | None) -> Iterator[tuple[date, Mapping[str, LentTime]]]:
    """What is not summed up, in days or months, or as a whole: the first day, and what each trainer had."""
    costs = {id_: costs_of(trainer) for id_, trainer in books.trainers.items()}
    for from_s, until_s in books.rest or [(books.from_s, books.until_s)]:
        for day, begin_s, end_s in _steps(from_s, until_s, step):
            near = [
                lending
                for lending in books.lendings
                if lending.start_s < end_s and lending.end_s > begin_s - LONGEST_LOSS_S
            ]
            yield day, lent_times(near, costs, begin_s, end_s)


def _steps(from_s: float, until_s: float, step: Key | None) -> Iterator[tuple[date, float, float]]:
    """The days or months of a range: the first day of each, from when until when."""
    while from_s < until_s:
        day = day_of(from_s)
        end_s = min(start_of(_next(day, step)), until_s) if step else until_s
        yield day, from_s, end_s
        from_s = end_s


def _next(day: date, step: Key) -> date:
    return day + timedelta(days=1) if step is Key.DAY else _month(day, 1)


def _month(day: date, after: int = 0) -> date:
    year, month = divmod(day.year * 12 + day.month - 1 + after, 12)
    return date(year, month + 1, 1)


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
    "--by", "keys", callback=_read_keys, default="account,user", metavar="KEY,…",
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
    books = read_books(daemons_store(config).ledger(), from_s, until_s, now_s, check or Key.TRAINING in keys)
    if check:
        gateway = OpenedWhenAsked(config.slurm.backend, config.slurm.timeout)
        differs = check_listing(books, gateway, standing, shape)
        raise SystemExit(ExitCode.FAILED if differs else ExitCode.OK)
    if report_path is not None:
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
        first = _read_month(month) if month and month != "last" else _month(present, -1 if month else 0)
        from_s = start_of(first)
        if month:
            until_s = start_of(_month(first, 1))
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


def check_listing(books: Books, gateway: Gateway, standing: Standing, shape: Shape) -> bool:
    """Print what the two tell differently; whether there is anything.

    Raises:
        FreetrainError: there is no accounting, or it does not answer.
    """
    if not gateway.site(inf, 0).settings.has_accounting:
        raise FreetrainError(
            "Slurm keeps no accounting here (AccountingStorageType), so there is nothing to check against.",
            exit_code=ExitCode.CONFIGURATION,
        )
    runs = _runs_of(books, gateway)
    check = compare(books.lendings, runs, books.from_s, books.until_s, books.now_s)
    shape.print(
        _check_document(check, books, standing),
        _CHECK_COLUMNS,
        map(_difference_cells, check.differences),
        ("LEDGER", "ACCOUNTING"),
    )
    if not shape.as_json:
        click.echo(_summary(check), err=shape.is_for_scripts)
    return bool(check.differences)


def _runs_of(books: Books, gateway: Gateway) -> Sequence[JobRun]:
    reaching = [lending for lending in books.lendings if lending.end_s > books.from_s]
    arrays = sorted({row.job.partition("_")[0] for row in reaching})
    groups = (arrays[first : first + _AT_ONCE] for first in range(0, len(arrays), _AT_ONCE))
    return [run for group in groups for run in gateway.runs(group)]


def _summary(check: Check) -> str:
    hours = f"{check.ledger_s / 3600:.2f} node-hours in the ledger, {check.accounting_s / 3600:.2f} in accounting"
    one_sided = sum(None in (difference.ledger_s, difference.accounting_s) for difference in check.differences)
    differ, times = len(check.differences), check.compared + one_sided
    verb = "differ" if differ > 1 else "differs"
    return f"{hours}: {differ or 'none'} of {times} times that a node was lent {verb}."


def _difference_cells(found: Difference) -> tuple[str, ...]:
    seconds = (_s(found.ledger_s), _s(found.accounting_s))
    return (found.job, found.node or NOTHING, show_time(found.start_s), *seconds, found.what)


def _s(seconds: float | None) -> str:
    return NOTHING if seconds is None else f"{seconds:.0f}"


def _check_document(check: Check, books: Books, standing: Standing) -> dict[str, object]:
    return {
        "format": _CHECK_FORMAT,
        "daemon": standing.document(),
        "from": books.from_s,
        "until": books.until_s,
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
