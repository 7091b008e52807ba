"""Lent days: what each day lent, summed up by user, account and kind once nothing of the day changes any more.

The sums stay for ever, at some rows a day, while fragments are forgotten after ``state.keep``. Days are those of
this machine's calendar, so that months are sums of days.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from datetime import date, datetime, time, timedelta

from freetrain.core.fragment import End, Fragment, LentTime
from freetrain.daemon.trainers.kinds import strategy_of
from freetrain.lending.lent_time import LONGEST_LOSS_S, ChangeCosts, Lending, each_node_once, lent_times
from freetrain.slurm.tags import Tag, tag_in
from freetrain.store.ledger import Ledger, LentDay

# An end may be written down so much too late, and the node be lent again meanwhile: a lost fragment is given up
# after an hour.
_LATEST_END_S = 7200.0
# So long after a day its fragments, and what their ends cost, are known.
_SETTLES_S = LONGEST_LOSS_S + _LATEST_END_S


def sum_up_days(ledger: Ledger, now_s: float) -> None:
    """Sum up all days that are settled and have not been summed up yet."""
    begin_s = ledger.days.summed_until_s()
    if begin_s is None:
        first_s = ledger.first_start_s()
        begin_s = None if first_s is None else start_of(day_of(first_s))
    while begin_s is not None and (end_s := start_of(day_of(begin_s) + timedelta(days=1))) + _SETTLES_S <= now_s:
        ledger.days.save(begin_s, end_s, _sums(ledger, begin_s, end_s, now_s))
        begin_s = end_s


def _sums(ledger: Ledger, from_s: float, until_s: float, now_s: float) -> list[LentDay]:
    lendings = lendings_of(fragments_for(ledger, from_s, until_s), now_s)
    trainers = ledger.trainers({lending.trainer for lending in lendings})
    costs = {id_: costs_of(trainer.tag) for id_, trainer in trainers.items()}
    sums: defaultdict[tuple[str, str, str], LentTime] = defaultdict(LentTime)
    for id_, lent in lent_times(lendings, costs, from_s, until_s).items():
        trainer = trainers.get(id_)
        tag = tag_in(trainer.tag) if trainer else None
        names = (trainer.owner, trainer.account, tag.kind if tag else "") if trainer else ("", "", "")
        sums[names] += lent
    return [LentDay(from_s, until_s, *names, lent) for names, lent in sums.items()]


def fragments_for(ledger: Ledger, from_s: float, until_s: float) -> list[Fragment]:
    """Fragments that ran in this time, and those that ended so shortly before that they still count in it."""
    # By their tags most trainers lose seconds or minutes: all of the day before would be twice as many fragments.
    tags = ledger.tags_of_ended(from_s - LONGEST_LOSS_S, from_s)
    reach_s = max([_LATEST_END_S, *(costs_of(tag).reach_s for tag in tags)])
    return ledger.fragments_between(from_s - reach_s, until_s)


def lendings_of(fragments: Iterable[Fragment], now_s: float) -> list[Lending]:
    """Lendings by fragments that ran, of each node no more than all of it; those that go on last until now."""
    return each_node_once(
        Lending(
            job=fragment.job,
            trainer=fragment.trainer,
            node=fragment.node,
            start_s=fragment.started_s,
            end_s=now_s if fragment.ended_s is None else fragment.ended_s,
            goes_on=fragment.ended_s is None,
            was_evicted=fragment.end is End.PREEMPTED,
            was_cut_off=fragment.end not in (None, End.COMPLETED, End.FAILED),
            share=fragment.share,
            parts=fragment.parts,
        )
        for fragment in fragments
        if fragment.started_s is not None
    )


def costs_of(comment: str) -> ChangeCosts:
    """Costs of a trainer's changes, as the tag in its comment says."""
    tag = tag_in(comment) or Tag()
    return strategy_of(tag).charged_costs(tag)


def day_of(time_s: float) -> date:
    """The day of this machine's calendar."""
    return datetime.fromtimestamp(time_s).date()


def start_of(day: date) -> float:
    """Start of a day of this machine's calendar, UTC epoch seconds."""
    return datetime.combine(day, time()).timestamp()
