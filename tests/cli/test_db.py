from __future__ import annotations

import json
import re
import sqlite3
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from freetrain.cli.main import cli
from freetrain.daemon.state_directory import claim
from freetrain.errors import ExitCode
from freetrain.store import Store, schema
from freetrain.store.schema import schema_of
from tests.store.samples import begin_store_of_first_release


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    config = tmp_path / "freetrain.toml"
    config.write_text(f"[state]\ndirectory = '{tmp_path}'\n")
    monkeypatch.setenv("FREETRAIN_CONFIG", str(config))
    Store.open(tmp_path / "freetrain.db")
    return tmp_path / "freetrain.db"


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(cli, ["db", *map(str, arguments)])


def set_schema(path: Path, schema: str) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE alembic_version SET version_num = ?", (schema,))
    connection.close()


def test_a_whole_database_is_said_to_be_whole(path: Path) -> None:
    result = run("check")
    assert (result.exit_code, result.stdout.startswith(f"{path} is whole, of ")) == (ExitCode.OK, True)


def test_problems_are_listed_and_the_status_says_so(path: Path) -> None:
    set_schema(path, "0015")
    result = run("check")
    assert (result.exit_code, "schema 0015" in result.stdout) == (ExitCode.STATE_IO, True)
    assert len(json.loads(run("check", "--json").stdout)["problems"]) == 1


def test_a_backup_lies_beside_the_database_and_old_ones_go(path: Path) -> None:
    folder = path.parent / "backups"
    folder.mkdir()
    (folder / "freetrain-20010101T000000Z.db").touch()
    result = run("backup", "--keep", "1")
    assert result.exit_code == ExitCode.OK, result.output
    (copy,) = folder.iterdir()
    assert f"removed {folder}/freetrain-20010101T000000Z.db" in result.stdout
    assert run("check", "--store", copy).exit_code == ExitCode.OK


@pytest.mark.parametrize(("options", "kept"), [("", 7), ("--keep 9", 9)])
def test_the_nightly_backup_leaves_so_many_copies(path: Path, options: str, kept: int) -> None:
    unit = (Path(__file__).parents[2] / "systemd/freetrain-backup.service").read_text()
    line = re.search(r"^ExecStart=/usr/bin/env freetrain db (.*)$", unit, re.MULTILINE)
    assert line is not None
    folder = path.parent / "backups"
    folder.mkdir()
    for day in range(10, 20):
        (folder / f"freetrain-200101{day}T033000Z.db").touch()
    result = run(*line[1].replace("$FREETRAIN_BACKUP_OPTIONS", options).split())
    assert result.exit_code == ExitCode.OK, result.output
    names = sorted(copy.name for copy in folder.iterdir())
    assert len(names) == kept
    assert names[0] == f"freetrain-200101{20 - kept + 1}T033000Z.db"
    assert (folder / names[-1]).stat().st_size > 0


def test_a_backup_goes_where_it_is_wanted(path: Path, tmp_path: Path) -> None:
    assert run("backup", tmp_path / "mine.db").exit_code == ExitCode.OK
    assert (tmp_path / "mine.db").exists()
    assert run("backup", "--dry-run", tmp_path / "no.db").stdout == f"would copy {path} to {tmp_path}/no.db\n"
    assert not (tmp_path / "no.db").exists()


def test_an_upgrade_says_from_where_to_where_and_leaves_a_copy(path: Path) -> None:
    assert "already" in run("upgrade").stdout
    path.unlink()
    begin_store_of_first_release(path)
    assert run("upgrade", "--dry-run").stdout == f"would bring {path} from schema 0008 to {schema.SCHEMA}\n"
    assert run("check").exit_code == ExitCode.STATE_IO
    assert run("upgrade").stdout == f"{path} was brought from schema 0008 to {schema.SCHEMA}.\n"
    assert run("check").exit_code == ExitCode.OK
    assert path.with_name("freetrain.db.schema-0008.backup").exists()


@pytest.mark.parametrize("reading", ["audit", "history", "ledger", "runs"])
def test_commands_that_read_leave_an_older_database_to_its_daemon(path: Path, reading: str) -> None:
    set_schema(path, "0008")
    result = CliRunner().invoke(cli, [reading], env={"FREETRAIN_STORE": str(path)})
    assert result.exit_code == ExitCode.CONFIGURATION, result.output
    assert f"{path} has schema 0008, and this freetrain needs {schema.SCHEMA}" in result.stderr
    assert "freetrain db upgrade" in result.stderr
    assert schema_of(path) == "0008"


def test_no_database_is_upgraded_under_a_daemon(path: Path) -> None:
    set_schema(path, "0008")
    with claim(path.parent, mounts=""):
        result = run("upgrade")
    assert (result.exit_code, schema_of(path)) == (ExitCode.TRY_AGAIN, "0008")
    assert f"A daemon is at work in {path.parent}" in result.stderr


def test_a_newer_database_is_left_alone(path: Path) -> None:
    set_schema(path, "0999")
    result = run("upgrade")
    assert result.exit_code == ExitCode.CONFIGURATION
    assert "a newer freetrain wrote it" in result.stderr
