""""""

from __future__ import annotations

import logging
import re
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from timeit import timeit

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory

from freetrain.core.harm import Harm
from freetrain.errors import ExitCode, StateError
from freetrain.store import Store, engine, schema
from freetrain.store.engine import as_state_errors
from freetrain.store.schema import SCHEMA, back_up, find_problems, name_of_backup, remove_old_backups, schema_of
from freetrain.store.tables import Base
from tests.store.samples import PROBLEM, begin_store_of_first_release, decide, new_run

SHIPPED_MIGRATIONS, SHIPPED = schema.MIGRATIONS, schema.SCHEMA
FULL = 2  # https://www.sqlite.org/pragma.html#pragma_synchronous
NEXT = f"{int(SHIPPED) + 1:04}"
ADD_A_COLUMN = f"""
import sqlalchemy as sa
from alembic import op

revision = "{NEXT}"
down_revision = "{SHIPPED}"


def upgrade():
    with op.batch_alter_table("runs") as runs:
        runs.add_column(sa.Column("comment", sa.String()))
        runs.alter_column("command", nullable=True)
"""


def execute(path, *statements):
    with closing(sqlite3.connect(path)) as connection:
        for statement in statements:
            connection.execute(statement)
        connection.commit()


def complaint(path, exit_code=ExitCode.STATE_IO):
    with pytest.raises(StateError) as caught:
        Store.open(path)
    assert caught.value.exit_code is exit_code
    assert caught.value.hint
    return str(caught.value)


@pytest.fixture
def newer_freetrain(tmp_path, monkeypatch):
    """A freetrain with one more migration."""
    migrations = tmp_path / "a 100% newer freetrain" / "migrations"
    shutil.copytree(schema.MIGRATIONS, migrations)
    (migrations / "versions" / f"{NEXT}_comment.py").write_text(ADD_A_COLUMN)
    monkeypatch.setattr(schema, "MIGRATIONS", migrations)
    monkeypatch.setattr(schema, "SCHEMA", NEXT)


def test_the_migrations_make_the_tables_as_they_are_declared_and_as_a_new_store_has_them(tmp_path):
    migrated, new = tmp_path / "migrated.db", Store.open(tmp_path / "new.db").path
    begin_store_of_first_release(migrated)
    Store.open(migrated)
    with engine.make_engine(migrated).connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, Base.metadata) == []
    assert written_in(new) == written_in(migrated)


def written_in(path: Path) -> dict[str, list[str]]:
    """The words of each statement that made its tables, indexes and triggers: columns may have any order."""
    with closing(sqlite3.connect(path)) as connection:
        rows = connection.execute("SELECT name, coalesce(sql, '') FROM sqlite_master").fetchall()
    return {name: sorted(re.findall(r"\w+|<>|'[^']*'", text)) for name, text in rows}


def test_the_schema_is_that_of_the_last_migration():
    assert ScriptDirectory(str(schema.MIGRATIONS)).get_current_head() == schema.SCHEMA


def test_opening_creates_the_folders_above_whatever_they_are_called(tmp_path):
    path = tmp_path / 'it\'s a 50% "folder"' / "ü?x=1#" / "runs.db"
    Store.open(path)
    assert Store.open_existing(path).runs() == []


def test_an_up_to_date_store_opens_at_once_and_without_alembic(tmp_path):
    path = tmp_path / "runs.db"
    first_s, *later_s = [timeit(lambda: Store.open(path), number=1) for _ in range(6)]
    assert min(later_s) < first_s / 2
    check = f"""if True:
        import sys
        from pathlib import Path
        from freetrain.store import Store
        Store.open(Path({str(path)!r}))
        sys.exit("alembic" in sys.modules)"""
    assert subprocess.run([sys.executable, "-c", check], check=False).returncode == 0


def test_opening_leaves_logging_as_it_is(tmp_path):
    root = logging.getLogger()
    before = (root.level, list(root.handlers), logging.getLogger("freetrain").disabled)
    Store.open(tmp_path / "runs.db")
    assert (root.level, list(root.handlers), logging.getLogger("freetrain").disabled) == before


def test_readers_and_the_writer_do_not_block_each_other(tmp_path):
    Store.open(tmp_path / "runs.db")
    with closing(sqlite3.connect(tmp_path / "runs.db")) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_what_was_written_outlives_a_power_cut(tmp_path):
    store = Store.open(tmp_path / "runs.db")
    with store._database.engine.connect() as connection:
        assert connection.exec_driver_sql("PRAGMA synchronous").scalar() == FULL


def test_two_runs_at_a_time_are_both_recorded(tmp_path):
    first, second = (Store.open(tmp_path / "runs.db") for _ in range(2))
    with first.begin_run(new_run()) as one, second.begin_run(new_run()) as other:
        for run in (one, other):
            run.record(PROBLEM, decide())
            run.finish({}, (), 1.0)
    assert [run.decision_count for run in first.runs()] == [1, 1]


def test_an_old_store_is_migrated_and_its_old_state_kept_beside(tmp_path, newer_freetrain, monkeypatch):
    path = tmp_path / "runs.db"
    with monkeypatch.context() as older:
        older.setattr(schema, "SCHEMA", SHIPPED)
        older.setattr(schema, "MIGRATIONS", SHIPPED_MIGRATIONS)
        with Store.open(path).begin_run(new_run()) as run:
            run.record(PROBLEM, decide())
    assert Store.open(path).decision(1, 1)[0] == PROBLEM
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT comment, command FROM runs").fetchall() == [(None, "replay log.txt")]
        assert connection.execute("SELECT count(*) FROM decisions").fetchone() == (1,)
    with closing(sqlite3.connect(tmp_path / f"runs.db.schema-{SHIPPED}.backup")) as backup:
        assert backup.execute("SELECT version_num FROM alembic_version").fetchone() == (SHIPPED,)
        assert backup.execute("SELECT count(*) FROM decisions").fetchone() == (1,)


@pytest.mark.parametrize("read", [Store.open_existing, Store.open_read_only])
def test_readers_leave_an_old_store_to_the_older_daemon_that_may_be_at_work(tmp_path, monkeypatch, read):
    path = tmp_path / "runs.db"
    Store.open(path)
    before = path.read_bytes()
    monkeypatch.setattr(schema, "SCHEMA", NEXT)
    with pytest.raises(StateError) as caught:
        read(path)
    assert caught.value.what == (
        f"The store {path} has schema {SHIPPED}, and this freetrain needs {NEXT}: an older freetrain wrote it, "
        "and its daemon may still be at work."
    )
    assert f"freetrain db upgrade --store {path}" in caught.value.hint
    assert caught.value.exit_code is ExitCode.CONFIGURATION
    assert path.read_bytes() == before
    assert not list(tmp_path.glob("*backup*"))


def test_nothing_is_recorded_in_an_empty_file_and_reading_leaves_it_empty(tmp_path):
    path = tmp_path / "runs.db"
    path.touch()
    with pytest.raises(StateError, match="No run has been recorded yet"):
        Store.open_existing(path)
    assert path.read_bytes() == b""


def test_a_newer_schema_is_refused_and_left_alone(tmp_path):
    path = tmp_path / "runs.db"
    Store.open(path)
    execute(path, "UPDATE alembic_version SET version_num = '0999'")
    sentence = complaint(path, ExitCode.CONFIGURATION)
    assert "has schema 0999" in sentence
    assert "a newer freetrain wrote it" in sentence
    with pytest.raises(StateError, match="a newer freetrain"):
        Store.open_existing(path)
    assert [path.name for path in tmp_path.iterdir()] == ["runs.db"]


@pytest.mark.parametrize("read", [Store.open, Store.open_existing, Store.open_read_only])
def test_a_schema_of_before_the_first_release_is_refused_with_what_to_do_and_left_alone(tmp_path, read):
    path = tmp_path / "runs.db"
    Store.open(path)
    execute(path, "UPDATE alembic_version SET version_num = '0007'")
    with pytest.raises(StateError) as caught:
        read(path)
    assert caught.value.what == (
        f"The store {path} has schema 0007, which freetrain had before its first release, 0.2.0: this freetrain "
        "upgrades stores from schema 0008 on."
    )
    assert caught.value.hint.startswith("Let freetrain 0.2.0 upgrade it first, or name another store with --store")
    assert caught.value.exit_code is ExitCode.CONFIGURATION
    assert schema_of(path) == "0007"
    assert not list(tmp_path.glob("*backup*"))


def test_a_folder_that_cannot_be_created_is_named(tmp_path):
    (tmp_path / "file").write_text("in the way")
    sentence = complaint(tmp_path / "file" / "folder" / "runs.db")
    assert sentence == f"The store's folder {tmp_path}/file/folder cannot be created: Not a directory."


def test_a_folder_that_cannot_be_written_is_named():
    # No one, not even root, creates files there.
    assert "The store /proc/self/runs.db cannot be opened or written" in complaint(Path("/proc/self/runs.db"))


def test_a_folder_in_the_place_of_the_store_is_told(tmp_path):
    assert "cannot be opened or written" in complaint(tmp_path)


def test_a_file_that_is_no_database_is_told_and_left_alone(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("no database, but long enough to look at " * 100)
    before = path.read_bytes()
    assert complaint(path) == f"The store {path} is not an SQLite database."
    assert path.read_bytes() == before


def test_another_programs_database_is_told_and_left_alone(tmp_path):
    path = tmp_path / "places.sqlite"
    execute(path, "CREATE TABLE bookmarks (url TEXT)")
    assert "not freetrain's: it has the tables bookmarks" in complaint(path)


def test_a_locked_store_is_told_after_a_while(tmp_path, monkeypatch):
    path = tmp_path / "runs.db"
    Store.open(path)
    monkeypatch.setattr(engine, "BUSY_TIMEOUT_S", 0.05)
    with closing(sqlite3.connect(path)) as other:
        other.execute("BEGIN IMMEDIATE")
        assert complaint(path) == f"The store {path} is locked by another process."
    Store.open(path)


def test_reading_before_anything_was_recorded_is_told_and_creates_nothing(tmp_path):
    with pytest.raises(StateError, match="No run has been recorded yet"):
        Store.open_existing(tmp_path / "none" / "runs.db")
    assert list(tmp_path.iterdir()) == []


def test_a_wrong_statement_is_a_fault_of_freetrain_and_not_of_the_file(tmp_path):
    store = Store.open(tmp_path / "runs.db")
    with pytest.raises(sqlite3.IntegrityError), as_state_errors(store.path):
        execute(store.path, *["INSERT INTO alembic_version VALUES ('0005')"] * 2)


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
        connection.execute("UPDATE alembic_version SET version_num = '0008'")
    connection.close()
    (problem,) = find_problems(path)
    assert problem == f"it has schema 0008, and this freetrain needs {SCHEMA}: run 'freetrain db upgrade'"


def test_a_schema_of_before_the_first_release_is_a_problem_that_only_that_release_mends(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '0004'")
    connection.close()
    (problem,) = find_problems(path)
    assert problem.endswith(f"freetrain needs {SCHEMA}: let freetrain 0.2.0 upgrade it first")


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
