"""The ledger of a month as a page: node-hours by user and account, their worth, and the jobs that they delayed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date

from freetrain.config import Prices
from freetrain.core.fragment import LentTime
from freetrain.core.harm import Harm
from freetrain.core.holes import SECONDS_PER_HOUR
from freetrain.replay.report.page import fill
from freetrain.replay.worth import Worth, worth_of, worth_rows
from freetrain.showing.words import FigureLine, count, duration, number, share

_MAX_ROWS = 100
_MAX_DELAYS = 20

Named = Sequence[tuple[tuple[str, ...], LentTime]]


@dataclass(frozen=True, slots=True)
class LedgerReport:
    """Content of the page.

    Attributes:
        is_over: whether its time is over, so that no more can come to it.
        course: each day or month of it by its first day, in order, with what was lent.
        accounts: (account,) → lent time of its users.
        users: (account, user) → their lent time.
        delays_since_s: earlier delays are no longer known; None: all are.
    """

    title: str
    from_s: float
    until_s: float
    is_over: bool
    course: Sequence[tuple[date, LentTime]]
    accounts: Named
    users: Named
    harms: Sequence[Harm]
    delays_since_s: float | None
    prices: Prices
    version: str
    command: str

    @property
    def total(self) -> LentTime:
        """Lent time of all users together."""
        return sum((lent for _, lent in self.users), LentTime())


@dataclass(frozen=True, slots=True)
class LedgerLine:
    """Line of an account or a user in a table: lent time, and its worth."""

    names: tuple[str, ...]
    lent: LentTime
    worth: Worth


@dataclass(frozen=True, slots=True)
class LedgerTable:
    """Users or accounts that had most, most first, and the sum of all."""

    heads: tuple[str, ...]
    lines: tuple[LedgerLine, ...]
    left_out: int
    total: LedgerLine


def render_ledger(report: LedgerReport) -> str:
    """The page as HTML."""
    total = report.total
    by_user = [((user, account), lent) for (account, user), lent in report.users]
    tables = [_table(("user", "account"), by_user, report)]
    if len(report.accounts) > 1:
        tables.insert(0, _table(("account",), report.accounts, report))
    # What became of the node-seconds: class of the style sheet, words, and node-seconds
    parts = (
        ("useful", "useful", total.useful_s),
        ("starting", "lost when nodes came", total.lost_to_starts_s),
        ("lost", "lost when nodes went", total.lost_to_ends_s),
    )
    return fill(
        "ledger.html.j2",
        report=report,
        headline=_headline(total),
        tiles=_tiles(report),
        total=total,
        parts=[part for part in parts if part[2]],
        top_s=max((lent.lent_s for _, lent in report.course), default=0.0) or 1.0,
        tables=tables,
        worth=worth_rows(_line((), total, report.prices).worth, report.prices),
        delays=sorted(report.harms, key=lambda harm: -harm.delay_s)[:_MAX_DELAYS],
        delays_left_out=max(0, len(report.harms) - _MAX_DELAYS),
        about_delays=_about_delays(report.harms),
    )


def _headline(total: LentTime) -> str:
    if not total.lent_s:
        return "No idle node was lent"
    hours = count(total.lent_s / SECONDS_PER_HOUR, "node-hour")
    return f"{hours} lent to trainings, {share(total.useful_s / total.lent_s)} useful"


def _tiles(report: LedgerReport) -> list[FigureLine]:
    total = report.total
    people = len({names[-1] for names, _ in report.users})
    times = count(total.starts, "that was", "that were")
    lost = "the rest was lost when nodes came and went"
    return [
        FigureLine("node-hours lent", number(total.lent_s / SECONDS_PER_HOUR), f"to {count(people, 'user')}"),
        FigureLine("useful", number(total.useful_s / SECONDS_PER_HOUR), lost),
        FigureLine("nodes taken back", number(total.evictions), f"by Slurm, of {times} lent"),
        FigureLine("jobs of the site delayed", number(len(report.harms)), _about_delays(report.harms)),
    ]


def _about_delays(harms: Sequence[Harm]) -> str:
    if not harms:
        return "none started later because of a training"
    delays_s = [harm.delay_s for harm in harms]
    return f"by {duration(sum(delays_s))} together, {duration(max(delays_s))} at most"


def _table(heads: tuple[str, ...], entries: Named, report: LedgerReport) -> LedgerTable:
    most_first = sorted(entries, key=lambda entry: (-entry[1].lent_s, entry[0]))
    lines = tuple(_line(names, lent, report.prices) for names, lent in most_first[:_MAX_ROWS])
    return LedgerTable(heads, lines, len(entries) - len(lines), _line((), report.total, report.prices))


def _line(names: tuple[str, ...], lent: LentTime, prices: Prices) -> LedgerLine:
    worth = worth_of(lent.lent_s / SECONDS_PER_HOUR, lent.useful_s / SECONDS_PER_HOUR, prices)
    return LedgerLine(names, lent, worth)
