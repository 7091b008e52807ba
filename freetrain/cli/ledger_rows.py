"""What the ledger command adds up: the books of a range, and their lines by user, account, training or month."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from enum import StrEnum

from freetrain.core.fragment import End, Fragment
from freetrain.core.harm import Harm
from freetrain.core.known_trainer import KnownTrainer
from freetrain.daemon.trainers.fillers import most_lost_s
from freetrain.lending.lent_time import (
    LONGEST_LOSS_S,
    ChangeCosts,
    Lending,
    LentTime,
    each_node_once,
    lent_times,
)
from freetrain.slurm.tags import Tag, parse_tag
from freetrain.store.ledger import Ledger


class Key(StrEnum):
    """What there can be a line for each of."""

    MONTH = "month"
    DAY = "day"
    ACCOUNT = "account"
    USER = "user"
    TRAINING = "training"


@dataclass(frozen=True, slots=True)
class Books:
    """What was lent about a range of time.

    Attributes:
        lendings: no node more than once at a time; those of a day before the range are among them.
        trainers: by id.
        from_s: UTC epoch seconds.
        until_s: likewise.
        now_s: until when those last that have not ended.
        harms: delays of the site's jobs that started within the range.
    """

    lendings: Sequence[Lending]
    trainers: Mapping[str, KnownTrainer]
    from_s: float
    until_s: float
    now_s: float
    harms: Sequence[Harm] = ()


def read_books(ledger: Ledger, from_s: float, until_s: float, now_s: float) -> Books:
    """The books of a range.

    Raises:
        StateError: the database cannot be read.
    """
    found = (_lending(one, now_s) for one in ledger.fragments(from_s - LONGEST_LOSS_S))
    lendings = each_node_once(one for one in found if one is not None and one.start_s < until_s)
    harms = tuple(harm for harm in ledger.harms(from_s) if harm.started_s < until_s)
    return Books(lendings, ledger.trainers(), from_s, until_s, now_s, harms)


def entries_of(books: Books, keys: Sequence[Key]) -> list[tuple[tuple[str, ...], LentTime]]:
    """A line for each combination of the keys, in their order, with what it came to."""
    sums: defaultdict[tuple[str, ...], LentTime] = defaultdict(LentTime)
    step = next((key for key in (Key.DAY, Key.MONTH) if key in keys), None)
    for day, by_trainer in _parts(books, step):
        for id_, lent in by_trainer.items():
            trainer = books.trainers.get(id_)
            names = {
                Key.MONTH: f"{day:%Y-%m}",
                Key.DAY: f"{day}",
                Key.ACCOUNT: trainer.account if trainer else "",
                Key.USER: trainer.owner if trainer else "",
                Key.TRAINING: id_,
            }
            sums[tuple(names[key] for key in keys)] += lent
    return sorted(sums.items())


def course_of(books: Books, step: Key) -> list[tuple[date, LentTime]]:
    """Each day or month of the range, by its first day, with what it came to; empty ones are among them."""
    return [(day, sum(by_trainer.values(), LentTime())) for day, by_trainer in _parts(books, step)]


def _lending(fragment: Fragment, now_s: float) -> Lending | None:
    """None of a fragment that never ran."""
    if fragment.started_s is None:
        return None
    return Lending(
        job=fragment.job,
        trainer=fragment.trainer,
        node=fragment.node,
        start_s=fragment.started_s,
        end_s=now_s if fragment.ended_s is None else fragment.ended_s,
        goes_on=fragment.ended_s is None,
        was_evicted=fragment.end is End.PREEMPTED,
        was_cut_off=fragment.end not in (None, End.COMPLETED, End.FAILED),
        share=fragment.share,
    )


def _costs_of(trainer: KnownTrainer) -> ChangeCosts:
    tag = parse_tag(trainer.tag)
    known = tag if isinstance(tag, Tag) else Tag()
    if known.is_filler:
        return ChangeCosts(known.boot_s + known.start_s, 0.0, most_lost_s(known), independent=True)
    return ChangeCosts(known.start_s, known.grow_s, known.shrink_s)


def _parts(books: Books, step: Key | None) -> Iterator[tuple[date, Mapping[str, LentTime]]]:
    """The range in days or months, or as a whole: the first day of each, and what each trainer had in it."""
    costs = {id_: _costs_of(trainer) for id_, trainer in books.trainers.items()}
    begin_s = books.from_s
    while begin_s < books.until_s:
        day = datetime.fromtimestamp(begin_s).date()
        end_s = min(_start_of(_next(day, step)), books.until_s) if step else books.until_s
        near = [one for one in books.lendings if one.start_s < end_s and one.end_s > begin_s - LONGEST_LOSS_S]
        yield day, lent_times(near, costs, begin_s, end_s)
        begin_s = end_s


def _next(day: date, step: Key) -> date:
    if step is Key.DAY:
        return day + timedelta(days=1)
    year, month = divmod(day.year * 12 + day.month, 12)
    return date(year, month + 1, 1)


def _start_of(day: date) -> float:
    return datetime.combine(day, time()).timestamp()
