"""What the ledger command adds up: the books of a range, and their lines by user, account, training or month."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from freetrain.core.fragment import End, Fragment
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
    """

    lendings: Sequence[Lending]
    trainers: Mapping[str, KnownTrainer]
    from_s: float
    until_s: float
    now_s: float


def read_books(ledger: Ledger, from_s: float, until_s: float, now_s: float) -> Books:
    """The books of a range.

    Raises:
        StateError: the database cannot be read.
    """
    found = (_lending(one, now_s) for one in ledger.fragments(from_s - LONGEST_LOSS_S))
    lendings = each_node_once(one for one in found if one is not None and one.start_s < until_s)
    return Books(lendings, ledger.trainers(), from_s, until_s, now_s)


def entries_of(books: Books, keys: Sequence[Key]) -> list[tuple[tuple[str, ...], LentTime]]:
    """A line for each combination of the keys, in their order, with what it came to."""
    costs = {id_: _costs_of(trainer) for id_, trainer in books.trainers.items()}
    sums: defaultdict[tuple[str, ...], LentTime] = defaultdict(LentTime)
    for month, from_s, until_s in _parts(books, Key.MONTH in keys):
        for id_, time in lent_times(books.lendings, costs, from_s, until_s).items():
            trainer = books.trainers.get(id_)
            names = {
                Key.MONTH: month,
                Key.ACCOUNT: trainer.account if trainer else "",
                Key.USER: trainer.owner if trainer else "",
                Key.TRAINING: id_,
            }
            sums[tuple(names[key] for key in keys)] += time
    return sorted(sums.items())


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


def _parts(books: Books, by_month: bool) -> Iterator[tuple[str, float, float]]:
    """The range, in months where these are wanted, each with its name."""
    if not by_month:
        yield "", books.from_s, books.until_s
        return
    begin_s = books.from_s
    while begin_s < books.until_s:
        at = datetime.fromtimestamp(begin_s)
        year, month = divmod(at.year * 12 + at.month, 12)
        end_s = min(datetime(year, month + 1, 1).timestamp(), books.until_s)
        yield f"{at:%Y-%m}", begin_s, end_s
        begin_s = end_s
