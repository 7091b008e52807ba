from __future__ import annotations

from pathlib import Path

import pytest

from freetrain.daemon.executor import Executor, Mode
from freetrain.slurm import commands
from freetrain.slurm.command_line import CommandLine
from freetrain.slurm.errors import SlurmMissingError, SlurmRefusedError
from freetrain.slurm.launcher import Order
from freetrain.store.store import Store
from tests.daemon.fake_slurm import FakeSlurm

ONE, OTHER = (Order(commands.release(job), f"start {job}") for job in ("1_0", "2_0"))


def test_each_order_is_advised_once_an_hour(slurm: FakeSlurm, tmp_path: Path) -> None:
    ledger = Store.open(tmp_path / "freetrain.db").ledger()
    executor = Executor(slurm, ledger, Mode.ADVISE, lambda: slurm.now_s)
    began_s = slurm.now_s
    tries = ((ONE, 0), (OTHER, 1800), (ONE, 3599), (ONE, 3600), (OTHER, 5399), (OTHER, 5400), (ONE, 7199))
    for order, at_s in tries:
        slurm.now_s = began_s + at_s
        assert executor.carry_out(order) is None
    advised = [(row.why, row.time_s - began_s) for row in ledger.commands()]
    assert advised == [("start 1_0", 0), ("start 2_0", 1800), ("start 1_0", 3600), ("start 2_0", 5400)]
    assert {row.return_code for row in ledger.commands()} == {None}
    assert slurm.told == []


def test_the_audit_keeps_what_each_command_ended_with(tmp_path: Path) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    scontrol = programs / "scontrol"
    ledger = Store.open(tmp_path / "freetrain.db").ledger()
    slurm = CommandLine(environment={"PATH": f"{programs}:/usr/bin:/bin"})
    executor = Executor(slurm, ledger, Mode.ACT, lambda: 0.0)
    for script in ("exit 0", "echo scontrol: error: Invalid job id specified >&2; exit 3"):
        scontrol.write_text(f"#!/bin/sh\n{script}\n")
        scontrol.chmod(0o755)
        executor.carry_out(ONE)
    done, refused = ledger.commands()
    assert (done.result, done.return_code) == ("done", 0)
    assert ("Invalid job id" in refused.result, refused.return_code) == (True, 3)


@pytest.mark.parametrize(
    ("mode", "refusals", "line"),
    [
        (Mode.ACT, [], "start 1_0, by decision 12:480"),
        (Mode.ACT, [SlurmRefusedError("Slurm says no.")], "Slurm says no. (to start 1_0, by decision 12:480)"),
        (Mode.ADVISE, [], "would start 1_0, by decision 12:480: scontrol release 1_0"),
    ],
)
def test_the_log_names_the_decision_of_each_order(
    slurm: FakeSlurm,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    mode: Mode,
    refusals: list[SlurmRefusedError],
    line: str,
) -> None:
    def perform(*_: object) -> str:
        for refusal in refusals:
            raise refusal
        return ""

    monkeypatch.setattr(slurm, "perform", perform)
    executor = Executor(slurm, Store.open(tmp_path / "freetrain.db").ledger(), mode)
    with caplog.at_level("INFO"):
        executor.carry_out(ONE, "12:480")
    assert caplog.messages[-1] == line


def test_an_order_of_no_decision_is_logged_as_it_is(
    slurm: FakeSlurm, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slurm, "perform", lambda *_: "")
    with caplog.at_level("INFO"):
        Executor(slurm, Store.open(tmp_path / "freetrain.db").ledger(), Mode.ACT).carry_out(ONE)
    assert caplog.messages[-1] == "start 1_0"


def test_an_order_that_found_no_slurm_is_in_the_audit_as_one_that_failed(tmp_path: Path) -> None:
    ledger = Store.open(tmp_path / "freetrain.db").ledger()
    gone = CommandLine(environment={"PATH": str(tmp_path)})
    with pytest.raises(SlurmMissingError):
        Executor(gone, ledger, Mode.ACT, lambda: 0.0).carry_out(ONE)
    (row,) = ledger.commands()
    assert (row.why, row.result, row.return_code) == ("start 1_0", "there is no scontrol on this machine.", None)
