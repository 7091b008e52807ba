"""What earlier releases wrote is read as it was meant."""

from __future__ import annotations

import gzip
import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from freetrain.core.known_trainer import KnownTrainer
from freetrain.store import Store
from freetrain.store.journal import RunStatus, RunSummary
from freetrain.store.schema import SCHEMA, find_problems, schema_of
from tests.store.release import COMMAND, FRAGMENTS, HARM, RELEASED, STAYS, TRAINER
from tests.store.samples import NAMES, OUTCOME, PROBLEM, RECORDS, decide, new_run

CHANGELOG = Path(__file__).parents[2] / "CHANGELOG.md"
SCHEMAS = {"0.2.0": "0008"}
"""Of each release."""


def count_rows(path: Path) -> dict[str, int]:
    with closing(sqlite3.connect(path)) as connection:
        tables = [row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return {name: connection.execute(f"SELECT count(*) FROM {name}").fetchone()[0] for name in tables}


@pytest.fixture(params=SCHEMAS)
def released(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A release's database, not upgraded yet."""
    path = tmp_path / "freetrain.db"
    path.write_bytes(gzip.decompress((RELEASED / f"{request.param}.db.gz").read_bytes()))
    assert schema_of(path) == SCHEMAS[request.param]
    return path


def test_there_is_a_database_of_each_release() -> None:
    releases = re.findall(r"^## \[(\d[^]]*)\]", CHANGELOG.read_text(), re.MULTILINE)
    assert releases == list(SCHEMAS)


def test_an_upgrade_keeps_every_row_and_a_copy_of_all(released: Path) -> None:
    before = count_rows(released)
    assert 0 not in before.values(), "each table of the release has a row"
    found = schema_of(released)
    Store.open(released)
    assert (schema_of(released), find_problems(released)) == (SCHEMA, [])
    after = count_rows(released)
    assert {name: after[name] for name in before} == before
    copy = released.with_name(f"freetrain.db.schema-{found}.backup")
    assert (schema_of(copy), count_rows(copy)) == (found, before)


def test_what_the_daemon_remembered_means_the_same_after_an_upgrade(released: Path) -> None:
    ledger = Store.open(released).ledger()
    assert ledger.fragments(0.0) == FRAGMENTS
    assert ledger.open_fragments() == FRAGMENTS[1:]
    assert ledger.trainers() == {"7": TRAINER}
    (row,) = ledger.commands()
    assert (row.time_s, row.argv, row.why, row.decision, row.result, row.actor) == COMMAND
    assert ledger.harms() == [HARM]
    assert ledger.stays("batch") == STAYS


def test_runs_and_their_decisions_mean_the_same_after_an_upgrade(released: Path) -> None:
    store = Store.open(released)
    run = new_run()
    assert store.run(1).summary == RunSummary(
        1,
        run.command,
        run.version,
        RunStatus.COMPLETE,
        run.started_s,
        1.8e9,
        run.from_s,
        run.until_s,
        len(NAMES),
        1,
        run.settings,
        OUTCOME,
    )
    in_problems = {trainer.id for trainer in PROBLEM.trainers}
    results = {record.id: record for record in store.run(1).trainers}
    assert results == {record.id: record for record in RECORDS if record.id in in_problems}
    assert store.decision(1, 1) == (PROBLEM, decide())


def test_an_upgraded_database_is_written_to_like_a_new_one(released: Path) -> None:
    store = Store.open(released)
    newcomer = KnownTrainer("8", "anna", "freetrain:min=2", TRAINER.state, 200.0)
    store.ledger().save_trainers([newcomer])
    assert store.ledger().trainers() == {"7": TRAINER, "8": newcomer}
    with store.begin_run(new_run()) as second:
        second.record(PROBLEM, decide())
    assert [run.id for run in store.runs()] == [2, 1]
