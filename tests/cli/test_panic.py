from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from freetrain.cli.main import cli
from freetrain.cli.site import who_am_i
from freetrain.errors import ExitCode
from freetrain.slurm.commands import Command
from freetrain.slurm.errors import SlurmRefusedError
from freetrain.store import Store
from tests.daemon.fake_slurm import FakeSlurm


@pytest.fixture
def slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeSlurm:
    fake = FakeSlurm()
    monkeypatch.setattr("freetrain.cli.site.OpenedWhenAsked", lambda *_: fake)
    config = tmp_path / "freetrain.toml"
    config.write_text(f"[state]\ndirectory = '{tmp_path}'\nstop_file = '{tmp_path}/run/STOP'\n")
    monkeypatch.setenv("FREETRAIN_CONFIG", str(config))
    return fake


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["panic", *arguments])


def lent(slurm: FakeSlurm) -> str:
    """An array of which one task runs, one has been released, and two are held."""
    array = slurm.submit_array("freetrain:min=1")
    slurm.perform(("scontrol", "update", f"JobId={array}_0", "ReqNodeList=n1", "TimeLimit=60", "StartTime=now"))
    slurm.perform(("scontrol", "release", f"{array}_0"))
    slurm.start_what_can()
    slurm.stuck = True
    slurm.perform(("scontrol", "update", f"JobId={array}_1", "ReqNodeList=n2", "TimeLimit=60", "StartTime=now"))
    slurm.perform(("scontrol", "release", f"{array}_1"))
    slurm.told.clear()
    return array


def test_everything_is_taken_back_without_a_daemon(slurm: FakeSlurm, tmp_path: Path) -> None:
    array = lent(slurm)
    result = run()
    assert result.exit_code == ExitCode.OK, result.output
    assert slurm.told == [
        ("scontrol", "uhold", f"{array}_1"),
        ("scontrol", "requeuehold", "Incomplete", f"{array}_0"),
    ]
    assert slurm.running(array) == []
    assert (tmp_path / "run" / "STOP").exists()
    assert "remove it to lend again" in result.stdout


def test_the_audit_tells_of_each_order_and_what_came_of_it(
    slurm: FakeSlurm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = Store.open(tmp_path / "freetrain.db").ledger()
    array = lent(slurm)
    perform = slurm.perform

    def refuse(command: Command, stdin: str = "") -> str:
        if command[1] == "uhold":
            refused = SlurmRefusedError("Slurm refuses it")
            refused.return_code = 1
            raise refused
        return perform(command, stdin)

    monkeypatch.setattr(slurm, "perform", refuse)
    run()
    assert [(row.why, row.argv[1:2], row.result, row.return_code) for row in ledger.commands()] == [
        ("freetrain panic", [], "not everything was done: Slurm refuses it", None),
        ("freetrain panic", ["uhold"], "Slurm refuses it", 1),
        ("freetrain panic", ["requeuehold"], "done", 0),
    ]
    assert array in ledger.commands()[1].argv[2]
    assert {row.actor for row in ledger.commands()} == {who_am_i()}


def test_fragments_that_freetrain_submitted_are_cancelled_waiting_ones_too(
    slurm: FakeSlurm, tmp_path: Path
) -> None:
    with (tmp_path / "freetrain.toml").open("a") as file:
        file.write("[lend]\nlauncher = 'submit'\n")
    running = slurm.submit(comment="freetrain-fragment:of=90,node=n1,at=1000", partition="freetrain")
    slurm.stuck = True
    waiting = slurm.submit(comment="freetrain-fragment:of=90,node=n2,at=1000", partition="freetrain")
    pattern = slurm.submit_array("freetrain:min=1", tasks=1, held=False)
    run()
    assert slurm.told == [("scontrol", "uhold", f"{pattern}_0"), ("scancel", waiting, running)]


def test_what_is_not_freetrains_is_not_touched(slurm: FakeSlurm) -> None:
    main = slurm.submit(nodes=2)
    untagged = slurm.submit_array("")
    run()
    assert slurm.told == []
    assert main in slurm.jobs
    assert f"{untagged}_0" in slurm.jobs


def test_a_dry_run_prints_the_commands(slurm: FakeSlurm, tmp_path: Path) -> None:
    array = lent(slurm)
    assert run("--dry-run").stdout.splitlines() == [
        f"touch {tmp_path}/run/STOP",
        f"scontrol uhold {array}_1",
        f"scontrol requeuehold Incomplete {array}_0",
    ]
    assert slurm.told == []
    assert not (tmp_path / "run").exists()


def test_what_slurm_refuses_is_said_and_the_rest_is_done(
    slurm: FakeSlurm, monkeypatch: pytest.MonkeyPatch
) -> None:
    lent(slurm)
    perform = slurm.perform

    def refusing(command: tuple[str, ...], stdin: str = "") -> str:
        if command[1] == "uhold":
            raise SlurmRefusedError("Slurm refuses scontrol hold: Access denied.")
        return perform(command, stdin)

    monkeypatch.setattr(slurm, "perform", refusing)
    result = run()
    assert result.exit_code == ExitCode.FAILED
    assert "not everything was done: Slurm refuses scontrol hold: Access denied." in result.stderr
    assert "scontrol update PartitionName=freetrain State=DOWN" in result.stderr
    assert [command[1] for command in slurm.told] == ["requeuehold"]
