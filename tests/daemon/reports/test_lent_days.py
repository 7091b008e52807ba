"""Days are summed up once: every ledger says the same with the sums, and after the fragments are forgotten."""

from __future__ import annotations

import sqlite3
import tempfile
from contextlib import closing
from datetime import date
from pathlib import Path

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from freetrain.client.daemons_ledger import Key, course_of, entries_of, read_books
from freetrain.core.fragment import End, Fragment, FragmentState, LentTime
from freetrain.core.known_trainer import KnownTrainer, TrainerState
from freetrain.daemon.live_cluster import LentHours
from freetrain.daemon.reports.lent_days import start_of, sum_up_days
from freetrain.store.ledger import Ledger
from freetrain.store.store import Store

DAY_S = 86400.0
BEGIN_S = start_of(date(2026, 3, 20))
ACTIVE = TrainerState.ACTIVE
TRAINERS = [
    KnownTrainer("7", "news", "freetrain:start=3600,grow=600,shrink=300", ACTIVE, 1.0, account="press"),
    KnownTrainer("8", "news", "freetrain:kind=tasks,save=40000,start=60", ACTIVE, 1.0, account="press"),
    KnownTrainer("9", "games", "freetrain:min=1", ACTIVE, 1.0, account="fun"),
]


@st.composite
def fragments(draw: st.DrawFn) -> list[Fragment]:
    """Fragments on nodes of their own: where some overlap, what is cut depends on what is read together."""
    found = []
    for number in range(draw(st.integers(1, 12))):
        start_s = BEGIN_S + draw(st.integers(0, 5 * 24)) * 3600.0
        lasts_s = draw(st.none() | st.integers(1, 50)) if number == 0 else draw(st.integers(1, 50))
        end = draw(st.sampled_from([End.PREEMPTED, End.RELEASED, End.COMPLETED]))
        found.append(
            Fragment(
                f"{number}", draw(st.sampled_from("789")), f"n{number}",
                FragmentState.RUNNING if lasts_s is None else FragmentState.ENDED, start_s, 3600.0, start_s,
                None if lasts_s is None else start_s + lasts_s * 3600.0, None if lasts_s is None else end,
            )
        )  # fmt: skip
    return found


def ledger_of(directory: str, given_fragments: list[Fragment]) -> Ledger:
    ledger = Store.open(Path(directory) / "freetrain.db").ledger()
    ledger.save_trainers(TRAINERS)
    ledger.save_fragments(given_fragments)
    return ledger


def same(one: LentTime, other: LentTime) -> bool:
    times = ("lent_s", "lost_to_starts_s", "lost_to_ends_s")
    return all(getattr(one, name) == pytest.approx(getattr(other, name), abs=1e-3) for name in times) and (
        (one.starts, one.evictions) == (other.starts, other.evictions)
    )


@settings(max_examples=5, deadline=None, phases=(Phase.explicit, Phase.generate))
@given(fragments(), st.integers(0, 100), st.integers(1, 120), st.sampled_from([Key.DAY, Key.MONTH]))
def test_every_range_comes_to_the_same_with_sums_and_one_by_one(
    given_fragments: list[Fragment], from_h: int, lasts_h: int, step: Key
) -> None:
    now_s = BEGIN_S + 9 * DAY_S
    from_s = BEGIN_S + from_h * 3600.0
    until_s = min(from_s + lasts_h * 3600.0, now_s)
    keys = (step, Key.ACCOUNT, Key.USER)
    with tempfile.TemporaryDirectory() as directory:
        ledger = ledger_of(directory, given_fragments)
        before = read_books(ledger, from_s, until_s, now_s)
        sum_up_days(ledger, now_s)
        after = read_books(ledger, from_s, until_s, now_s)
        summed_s = ledger.days.summed_until_s() or 0.0
        assert after.rest == before.rest or from_s < summed_s
        expected, found = dict(entries_of(before, keys)), dict(entries_of(after, keys))
        assert found.keys() == expected.keys()
        assert all(same(found[names], expected[names]) for names in expected)
        for (day, one), (other_day, other) in zip(course_of(before, step), course_of(after, step), strict=True):
            assert day == other_day
            assert same(one, other)


def test_what_is_forgotten_stays_in_the_sums_and_nothing_else_of_it(tmp_path: Path) -> None:
    ended = [
        Fragment(
            f"{number}", "7" if number else "9", "n1", FragmentState.ENDED, start_s, 60.0, start_s,
            start_s + 3600.0, End.RELEASED,
        )
        for number in range(10)
        for start_s in [BEGIN_S + number * DAY_S]
    ]  # fmt: skip
    ledger = ledger_of(str(tmp_path), ended)
    now_s = BEGIN_S + 12 * DAY_S
    sum_up_days(ledger, now_s)
    assert ledger.days.summed_until_s() == BEGIN_S + 10 * DAY_S
    before_s = BEGIN_S + 5 * DAY_S
    while ledger.forget_fragments(before_s, ["8"]):
        pass
    assert len(ledger.fragments(0.0)) == 5
    assert set(ledger.trainers()) == {"7", "8"}, "9 has no fragment any more, and 8 is in Slurm"
    books = read_books(ledger, BEGIN_S, BEGIN_S + 10 * DAY_S, now_s)
    assert [(names, lent.lent_s) for names, lent in entries_of(books, (Key.USER,))] == [
        (("games",), 3600.0),
        (("news",), 9 * 3600.0),
    ]


def test_a_node_counts_once_also_where_an_end_was_written_down_after_the_next_one_and_after_midnight(
    tmp_path: Path,
) -> None:
    hour_s = 3600.0
    lent = [
        ("7", BEGIN_S + 20 * hour_s, BEGIN_S + 25 * hour_s),
        ("9", BEGIN_S + 23 * hour_s, BEGIN_S + 30 * hour_s),
    ]
    ended = FragmentState.ENDED
    fragments_of_a_node = [
        Fragment(trainer, trainer, "n1", ended, start_s, 60.0, start_s, end_s, End.RELEASED)
        for trainer, start_s, end_s in lent
    ]
    ledger = ledger_of(str(tmp_path), fragments_of_a_node)
    now_s = BEGIN_S + 9 * DAY_S
    for _ in ("one by one", "summed up"):
        entries = dict(entries_of(read_books(ledger, BEGIN_S, BEGIN_S + 2 * DAY_S, now_s), (Key.DAY, Key.USER)))
        hours = {names: time.lent_s / hour_s for names, time in entries.items() if time.lent_s}
        assert sorted(hours.values()) == [1, 3, 6], hours
        sum_up_days(ledger, now_s)
    assert ledger.days.summed_until_s() is not None


def test_shares_of_use_are_the_same_with_the_sums(tmp_path: Path) -> None:
    ended = [
        Fragment(
            f"{number}", "7", "n1", FragmentState.ENDED, start_s, 60.0, start_s, start_s + DAY_S, End.RELEASED
        )
        for number in range(30)
        for start_s in [BEGIN_S + number * DAY_S]
    ]
    ledger = ledger_of(str(tmp_path), ended)
    now_s = BEGIN_S + 30 * DAY_S
    expected = LentHours(ledger).hours(now_s, 7 * DAY_S)["news"]
    sum_up_days(ledger, now_s)
    assert LentHours(ledger).hours(now_s, 7 * DAY_S)["news"] == pytest.approx(expected, rel=0.01)


def test_a_day_is_summed_up_once_nothing_of_it_changes_any_more(tmp_path: Path) -> None:
    start_s = BEGIN_S + 3600.0
    going_on = Fragment("1", "7", "n1", FragmentState.RUNNING, start_s, 60.0, start_s)
    ledger = ledger_of(str(tmp_path), [going_on])
    for days, summed in ((1.9, 0), (2.2, 1), (4.2, 3)):
        sum_up_days(ledger, BEGIN_S + days * DAY_S)
        until_s = ledger.days.summed_until_s()
        assert (0 if until_s is None else (until_s - BEGIN_S) / DAY_S) == summed
    assert [day.lent.lent_s for day in ledger.days.between(0.0, BEGIN_S + 9 * DAY_S)] == [82800.0, DAY_S, DAY_S]


def test_what_is_forgotten_is_given_back_to_the_file_system(tmp_path: Path) -> None:
    ended = [
        Fragment(
            f"{number}_{'x' * 60}",
            "7",
            "n1",
            FragmentState.ENDED,
            BEGIN_S,
            60.0,
            BEGIN_S,
            BEGIN_S + 60.0,
            End.RELEASED,
        )
        for number in range(5000)
    ]
    ledger, path = ledger_of(str(tmp_path), ended), tmp_path / "freetrain.db"

    def size() -> int:
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return path.stat().st_size

    before = size()
    assert ledger.forget_fragments(BEGIN_S + DAY_S, ())
    while ledger.give_space_back():
        pass
    assert size() < before / 2
