from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from freetrain.core.harm import Harm
from freetrain.errors import StateError
from freetrain.store import Store
from freetrain.store.schema import SCHEMA
from freetrain.store.upkeep import back_up, find_problems, name_of_backup, remove_old_backups, schema_of

HARM = Harm("9", 1000.0, 1.0, 2.0, 3.0, ("7_0",))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "freetrain.db"
    Store.open(path).ledger().record_harm(HARM)
    return path


def test_a_whole_store_has_no_problems_and_is_not_written_to(path: Path) -> None:
    before = path.read_bytes()
    assert find_problems(path) == []
    assert schema_of(path) == SCHEMA
    assert path.read_bytes() == before


def test_damage_is_found(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA foreign_keys = OFF")
        connection.execute("INSERT INTO decisions SELECT 99, 1, 0, 'optimal', 'x', 0, 0, 0, 0, 0, '[]', x'', x''")
    connection.close()
    assert find_problems(path) == ["a row of decisions refers to one of runs that is not there"]
    path.write_bytes(path.read_bytes()[: 16384 * 3])
    with pytest.raises(StateError, match="is damaged"):
        find_problems(path)


def test_an_older_schema_is_a_problem_that_is_mended_by_an_upgrade(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '0004'")
    connection.close()
    (problem,) = find_problems(path)
    assert problem == f"it has schema 0004, and this freetrain needs {SCHEMA}: run 'freetrain db upgrade'"


def test_a_newer_schema_is_a_problem_that_no_upgrade_mends(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '0999'")
    connection.close()
    (problem,) = find_problems(path)
    assert problem.endswith(f"freetrain needs {SCHEMA}: use the newer freetrain that wrote it")


def test_a_store_that_is_not_there_is_said(tmp_path: Path) -> None:
    for ask in (find_problems, schema_of, lambda path: back_up(path, tmp_path / "copy.db")):
        with pytest.raises(StateError, match="There is no store"):
            ask(tmp_path / "none.db")


def test_a_copy_is_whole_and_made_while_others_write(path: Path, tmp_path: Path) -> None:
    ledger = Store.open(path).ledger()
    path.chmod(0o640)
    with sqlite3.connect(path) as other:
        other.execute("BEGIN")
        other.execute("SELECT count(*) FROM harms").fetchone()
        back_up(path, tmp_path / "copies" / "copy.db")
    other.close()
    ledger.record_harm(HARM)
    copy = tmp_path / "copies" / "copy.db"
    assert Store.open_existing(copy).ledger().harms() == [HARM]
    assert copy.stat().st_mode & 0o777 == 0o640
    with pytest.raises(StateError, match="is there already"):
        back_up(path, copy)


def test_the_oldest_copies_are_removed_and_nothing_else(tmp_path: Path) -> None:
    made = [name_of_backup(tmp_path, day * 86400.0) for day in (3, 1, 2)]
    assert made[0].name == "freetrain-19700104T000000Z.db"
    for path in (*made, tmp_path / "freetrain-mine.db"):
        path.touch()
    assert remove_old_backups(tmp_path, keep=2) == [made[1]]
    assert {path.name for path in tmp_path.iterdir()} == {made[0].name, made[2].name, "freetrain-mine.db"}
