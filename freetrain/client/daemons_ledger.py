"""The daemon's database, for commands that read it, and the time that was lent in a range."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from enum import StrEnum
from pathlib import Path

from freetrain.config import Config
from freetrain.core.fragment import LentTime
from freetrain.core.harm import Harm
from freetrain.core.known_trainer import KnownTrainer
from freetrain.daemon.reports.lent_days import costs_of, day_of, fragments_for, lendings_of, start_of
from freetrain.errors import ExitCode, StateError
from freetrain.lending.lent_time import LONGEST_LOSS_S, Lending, lent_times
from freetrain.store.ledger import Ledger, LentDay
from freetrain.store.store import DAEMONS_STORE, Store


def daemons_store(config: Config) -> Store:
    """The database of the daemon with this configuration; raises StateError if it cannot be read."""
    path = Path(config.state.directory) / DAEMONS_STORE
    try:
        is_missing = not path.exists()
    except OSError:
        # Opening it will say why it cannot be read
        is_missing = False
    if is_missing:
        raise StateError(
            f"No daemon has worked here yet: there is no database {path}.",
            "Is it the daemon's own configuration that is read? 'freetrain config show --origin' says.",
        )
    if not os.access(path, os.R_OK):
        raise StateError(
            f"The daemon's database {path} is for the daemon's account and root.",
            "'freetrain jobs', 'nodes', 'holes', 'status' and 'top' show everybody what it lends.",
            ExitCode.NOT_ALLOWED,
        )
    return Store.open_existing(path)


class Key(StrEnum):
    """Keys by which lent time is summed up, a line for each value."""

    MONTH = "month"
    DAY = "day"
    ACCOUNT = "account"
    USER = "user"
    TRAINING = "training"


@dataclass(frozen=True, slots=True)
class Books:
    """Lent time in a range: whole days of it as sums, and the rest as lendings.

    Attributes:
        lendings: no node more than once at a time; those of a day before the range are among them.
        trainers: those of the lendings, by id.
        now_s: end of the lendings that have not ended, UTC epoch seconds.
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
    """Lent time of each combination of the keys' values, in their order."""
    sums: defaultdict[tuple[str, ...], LentTime] = defaultdict(LentTime)

    def add(day: date, account: str, user: str, training: str, lent: LentTime) -> None:
        names = {**_names(day), Key.ACCOUNT: account, Key.USER: user, Key.TRAINING: training}
        sums[tuple(names[key] for key in keys)] += lent

    step = next((key for key in (Key.DAY, Key.MONTH) if key in keys), None)
    for day, by_trainer in _parts(books, step):
        for id_, lent in by_trainer.items():
            trainer = books.trainers.get(id_)
            add(day, trainer.account if trainer else "", trainer.owner if trainer else "", id_, lent)
    for lent_day in books.days:
        add(day_of(lent_day.day_s), lent_day.account, lent_day.owner, "", lent_day.lent)
    return sorted(sums.items())


def _names(day: date) -> dict[Key, str]:
    return {Key.MONTH: f"{day:%Y-%m}", Key.DAY: f"{day}"}


def course_of(books: Books, step: Key) -> list[tuple[date, LentTime]]:
    """Lent time of each day or month of the range, by its first day; empty ones are among them."""
    sums = dict(entries_of(books, (step,)))
    days = (day for day, _, _ in _steps(books.from_s, books.until_s, step))
    return [(day, sums.get((_names(day)[step],), LentTime())) for day in days]


def _parts(books: Books, step: Key | None) -> Iterator[tuple[date, Mapping[str, LentTime]]]:
    """Lent time that no sums hold, by day, by month or as a whole: the first day, and the time of each trainer."""
    costs = {id_: costs_of(trainer.tag) for id_, trainer in books.trainers.items()}
    for from_s, until_s in books.rest or [(books.from_s, books.until_s)]:
        for day, begin_s, end_s in _steps(from_s, until_s, step):
            near = [
                lending
                for lending in books.lendings
                if lending.start_s < end_s and lending.end_s > begin_s - LONGEST_LOSS_S
            ]
            yield day, lent_times(near, costs, begin_s, end_s)


def _steps(from_s: float, until_s: float, step: Key | None) -> Iterator[tuple[date, float, float]]:
    """Days or months of a range, or all of it: first day, begin and end of each, UTC epoch seconds."""
    while from_s < until_s:
        day = day_of(from_s)
        end_s = min(start_of(_next(day, step)), until_s) if step else until_s
        yield day, from_s, end_s
        from_s = end_s


def _next(day: date, step: Key) -> date:
    return day + timedelta(days=1) if step is Key.DAY else month_of(day, 1)


def month_of(day: date, after: int = 0) -> date:
    """First day of the month of a day, or of the month that is ``after`` months later."""
    year, month = divmod(day.year * 12 + day.month - 1 + after, 12)
    return date(year, month + 1, 1)
