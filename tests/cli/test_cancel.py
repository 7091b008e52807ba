from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from freetrain.cli.main import cli
from freetrain.core.job import JobState
from freetrain.errors import ExitCode
from freetrain.slurm.commands import Command
from freetrain.slurm.errors import explain
from freetrain.store import Store
from freetrain.store.schema import schema_of
from tests.daemon.fake_slurm import FakeSlurm

TAG = "freetrain:min=1,max=4"


@pytest.fixture
def slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeSlurm:
    fake = FakeSlurm()
    monkeypatch.setattr("freetrain.cli.site.OpenedWhenAsked", lambda *_: fake)
    (tmp_path / "freetrain.toml").write_text(f"[state]\ndirectory = '{tmp_path}'\n")
    monkeypatch.setenv("FREETRAIN_CONFIG", str(tmp_path / "freetrain.toml"))
    return fake


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["cancel", *arguments])


def test_all_of_a_training_is_cancelled_and_nothing_else(slurm: FakeSlurm) -> None:
    array, other = slurm.submit_array(TAG), slurm.submit_array(TAG)
    assert run(array, "--dry-run").stdout == f"scancel {array}\n"
    assert slurm.told == []
    result = run(array)
    assert (result.exit_code, result.stdout) == (
        0, "Training 101 of news is cancelled; what runs of it ends now.\n",
    )  # fmt: skip
    assert slurm.told == [("scancel", array)]
    assert {job.state for job in slurm.jobs.values() if job.array == other} == {JobState.PENDING}
    assert run(array).exit_code == ExitCode.USAGE, "it is not there any more"


def test_fragments_that_freetrain_submitted_for_it_are_cancelled_too(slurm: FakeSlurm, tmp_path: Path) -> None:
    with (tmp_path / "freetrain.toml").open("a") as file:
        file.write("[lend]\nlauncher = 'submit'\n")
    pattern = slurm.submit_array(TAG, tasks=1)
    comment = "freetrain-fragment:of={},node={},at=1000"
    running = slurm.submit(comment=comment.format(pattern, "n1"), partition="freetrain")
    slurm.submit(comment=comment.format("99", "n2"), partition="freetrain")
    slurm.stuck = True
    waiting = slurm.submit(comment=comment.format(pattern, "n3"), partition="freetrain")
    assert run(pattern).exit_code == 0
    assert slurm.told == [("scancel", pattern, running, waiting)]


def test_who_may_not_is_told_who_may(slurm: FakeSlurm, monkeypatch: pytest.MonkeyPatch) -> None:
    array = slurm.submit_array(TAG)

    def refuse(command: Command, stdin: str = "") -> str:
        said = f"scancel: error: Kill job error on job id {array}: Access/permission denied\n"
        raise explain("scancel", said)

    monkeypatch.setattr(slurm, "perform", refuse)
    result = run(array)
    assert result.exit_code == ExitCode.NOT_ALLOWED
    assert "Slurm refuses scancel: Kill job error on job id 101: Access/permission denied" in result.stderr
    assert "Only news and accounts that may steer the jobs of others may cancel it." in result.stderr


def test_what_has_failed_everywhere_is_to_be_tried_again(slurm: FakeSlurm) -> None:
    array = slurm.submit_array(TAG, tasks=1)
    slurm.finish(f"{array}_0", JobState.FAILED)
    result = run(array)
    assert (result.exit_code, "try again then" in result.stderr) == (ExitCode.TRY_AGAIN, True), result.stderr


def test_the_audit_says_who_did_it(slurm: FakeSlurm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = Store.open(tmp_path / "freetrain.db").ledger()
    ledger.record_command(1e9, ("scontrol", "release", "7_1"), "grow", "1:3", "done")
    array = slurm.submit_array(TAG)
    monkeypatch.setattr("freetrain.cli.site.pwd.getpwuid", lambda _: type("", (), {"pw_name": "root"}))
    monkeypatch.setenv("SUDO_USER", "alice")
    run(array)
    assert CliRunner().invoke(cli, ["pause", "--reason", "new firmware"]).exit_code == 0
    shown = CliRunner().invoke(cli, ["audit", "--since", "99999d", "-P", "-h", "-o", "actor,why,command,result"])
    assert shown.stdout.splitlines() == [
        "daemon|grow|scontrol release 7_1|done",
        f"root (sudo by alice)|freetrain cancel {array}|scancel {array}|done",
        "root (sudo by alice)|freetrain pause|–|paused by root (sudo by alice) (new firmware)",
    ]


def test_what_people_do_is_not_written_into_the_database_of_an_older_daemon(
    slurm: FakeSlurm, tmp_path: Path
) -> None:
    path = Store.open(tmp_path / "freetrain.db").path
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE alembic_version SET version_num = '0008'")
    result = run(slurm.submit_array(TAG))
    assert result.exit_code == 0
    assert f"the audit does not tell of this: The store {path} has schema 0008" in result.stderr
    assert schema_of(path) == "0008"


def test_a_database_that_cannot_be_written_keeps_nobody_from_it(slurm: FakeSlurm, tmp_path: Path) -> None:
    (tmp_path / "freetrain.db").write_bytes(b"garbage" * 1000)
    array = slurm.submit_array(TAG)
    result = run(array)
    assert (result.exit_code, slurm.told) == (0, [("scancel", array)])
    assert "the audit does not tell of this" in result.stderr
