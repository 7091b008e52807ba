"""What is read of the database, and that it is only read."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import text
from sqlalchemy.exc import OperationalError

from freetrain.store import Store
from freetrain.store.engine import make_engine
from freetrain.web import facts
from freetrain.web.facts import TrainerResize, read_history
from tests.web.site import Site


def test_of_a_decision_what_it_changed_is_told_and_of_commands_what_they_were_for(site: Site) -> None:
    site.remembers()
    ledger = Store.open(site.path).ledger()
    for number in range(5):
        ledger.record_command(time.time(), ["scontrol"], f"lend n{number} to 60000101", "1:2", "done")
    past = read_history(site.path, time.time() - 3600, ["60000101", "unknown"])
    (decided,) = past.decisions
    assert (decided.name, decided.trainers, decided.resizes) == ("1:1", 1, (TrainerResize("60000101", 1, 3),))
    assert [(group.why, group.commands) for group in past.commands] == [
        ("lend n0 to 60000101; lend n1 to 60000101; lend n2 to 60000101; and 2 more", 5),
        ("lend n2 to 60000101; lend n3 to 60000101", 2),
    ]
    assert list(past.trainers) == ["60000101"]
    assert [harm.job for harm in past.harms] == ["77"]
    assert {stay.place for stay in past.stays} == {"n1", "n2"}
    assert not read_history(site.path, time.time() - 60, []).harms


def test_of_a_table_that_keeps_everything_only_the_end_is_looked_at(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.remembers()
    now_s = time.time()
    site.lent([("n5", "60000101", now_s - 60, now_s - 30), ("n6", "60000101", now_s - 1e6, now_s - 1e6 + 30)])
    monkeypatch.setattr(facts, "_MAX_FRAGMENTS", 3)
    assert [stay.place for stay in read_history(site.path, now_s - 3600, []).stays] == ["n2", "n5"]


def test_each_decision_is_unpacked_once(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    site.remembers()
    unpacked: list[int] = []
    ask = Store.decision
    monkeypatch.setattr(Store, "decision", lambda *of: (unpacked.append(of[2]), ask(*of))[1])
    for _ in range(3):
        read_history(site.path, 0.0, [])
    assert unpacked == [1]


def test_nothing_is_ever_written(site: Site) -> None:
    site.remembers()
    reading = make_engine(site.path, read_only=True)
    with reading.connect() as connection, pytest.raises(OperationalError, match="readonly database"):
        connection.execute(text("DELETE FROM fragments"))
    with make_engine(site.path).begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '0015'"))
    before = site.path.read_bytes()
    assert "an older freetrain wrote it" in read_history(site.path, 0.0, []).why_not
    assert site.path.read_bytes() == before
    assert not list(site.directory.glob("*backup*"))


def test_the_daemon_writes_while_it_is_read(site: Site) -> None:
    site.remembers()
    with make_engine(site.path, read_only=True).begin() as reading:
        assert len(reading.execute(text("SELECT * FROM fragments")).all()) == 2
        with closing(sqlite3.connect(site.path, timeout=0)) as writing:  # which would not wait
            writing.execute("BEGIN IMMEDIATE")
            writing.execute("DELETE FROM fragments")
            writing.commit()
        assert len(reading.execute(text("SELECT * FROM fragments")).all()) == 2, "it goes on with what there was"


def test_a_path_may_have_any_characters(tmp_path: Path) -> None:
    directory = tmp_path / "a b?c#d%20e"
    directory.mkdir()
    site = Site(directory)
    site.remembers()
    assert read_history(site.path, 0.0, []).why_not == ""


@pytest.mark.parametrize(
    "damage", ["UPDATE fragments SET started_s = 'nonsense'", "UPDATE decisions SET notes = 'nonsense'"]
)
def test_what_cannot_be_is_a_sentence(site: Site, damage: str) -> None:
    site.remembers()
    with make_engine(site.path).begin() as connection:
        connection.execute(text(damage))
    assert "is damaged: it holds what cannot be" in read_history(site.path, 0.0, []).why_not
