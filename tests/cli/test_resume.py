from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from freetrain.cli import site
from freetrain.cli.main import cli
from freetrain.client import trainings
from freetrain.config import Config
from freetrain.core.job import JobState
from freetrain.core.known_trainer import UNKNOWN_END, TrainerState
from freetrain.daemon.reports.status import LookStatus, StatusFile, TrainerStatus
from freetrain.errors import ExitCode
from freetrain.slurm.comments import asked_to_resume
from tests.daemon.fake_slurm import FakeSlurm

TAG = "freetrain:min=1,max=4"
PAUSED = f"{TAG} | paused after 5 failures in a row: see its output, then run freetrain resume 101"


@pytest.fixture
def slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeSlurm:
    fake = FakeSlurm()
    for module in (site, trainings):
        monkeypatch.setattr(module, "OpenedWhenAsked", lambda *_: fake)
    config = tmp_path / "freetrain.toml"
    config.write_text(f'[state]\ndirectory = "{tmp_path}"\n')
    monkeypatch.setenv("FREETRAIN_CONFIG", str(config))
    return fake


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, arguments)


def publish(directory: Path, state: TrainerState, note: str = "") -> None:
    trainer = TrainerStatus("101", "news", str(state), note=note)
    config = Config.model_validate({"lend": {"mode": "act"}})
    StatusFile(directory, 30.0, False).looked(
        config, LookStatus(time_s=time.time(), took_s=0.1, nodes=(), trainers=(trainer,))
    )


def test_a_paused_training_is_asked_to_go_on_and_the_daemon_is_left_its_answer(slurm: FakeSlurm) -> None:
    array = slurm.submit_array(PAUSED)
    slurm.finish(f"{array}_0")
    result = run("resume", array)
    assert (result.exit_code, result.stdout) == (
        0, "Training 101 competes for nodes again from the daemon's next look on.\n",
    )  # fmt: skip
    (command,) = slurm.told
    assert command[2] == "JobId=101_[1-3]", "Slurm changes nothing of what has ended"
    assert asked_to_resume(slurm.jobs[f"{array}_1"].comment)
    assert "was asked to go on" in run("jobs").stdout
    first = slurm.jobs[f"{array}_1"].comment
    assert run("resume", array).exit_code == 0
    assert asked_to_resume(slurm.jobs[f"{array}_1"].comment) > asked_to_resume(first)


def test_a_dry_run_prints_the_command(slurm: FakeSlurm) -> None:
    array = slurm.submit_array(PAUSED)
    result = run("resume", array, "--dry-run")
    assert result.stdout.startswith("scontrol update 'JobId=101_[0-3]' 'Comment=freetrain:min=1,max=4 | resume ")
    assert slurm.told == []


def test_what_nobody_says_is_paused_is_asked_all_the_same_and_that_is_said(slurm: FakeSlurm) -> None:
    array = slurm.submit_array(TAG)
    result = run("resume", array)
    assert (result.exit_code, "Nothing says that training 101 is paused" in result.stdout) == (0, True)
    assert asked_to_resume(slurm.jobs[f"{array}_0"].comment)


@pytest.mark.parametrize(
    ("state", "status", "says"),
    [
        (TrainerState.ACTIVE, ExitCode.USAGE, "Training 101 is not paused."),
        (TrainerState.RESTING, 0, "was not paused but rested after a failure"),
        (TrainerState.PAUSED, 0, "competes for nodes again"),
    ],
)
def test_what_the_daemon_published_is_said(
    slurm: FakeSlurm, tmp_path: Path, state: TrainerState, status: int, says: str
) -> None:
    array = slurm.submit_array(TAG)
    publish(tmp_path, state)
    result = run("resume", array)
    assert (result.exit_code, says in result.output) == (status, True), result.output


def test_a_refused_one_is_to_be_mended_and_not_resumed(slurm: FakeSlurm) -> None:
    array = slurm.submit_array("freetrain:mni=1 | there is no key mni; did you mean min?")
    result = run("resume", array)
    assert (result.exit_code, "not paused but refused: there is no key mni" in result.output) == (2, True)
    assert slurm.told == []


def test_what_has_just_ended_everywhere_is_to_be_tried_again(slurm: FakeSlurm) -> None:
    array = slurm.submit_array(PAUSED, tasks=1)
    slurm.finish(f"{array}_0", JobState.FAILED)
    result = run("resume", array)
    assert (result.exit_code, "have ended" in result.output) == (ExitCode.TRY_AGAIN, True), result.output
    assert run("resume", "4711").exit_code == ExitCode.USAGE


@pytest.mark.parametrize("known", [False, True])
def test_jobs_says_that_an_end_cannot_be_told(slurm: FakeSlurm, tmp_path: Path, known: bool) -> None:
    array = slurm.submit_array(TAG)
    if known:
        publish(tmp_path, TrainerState.ACTIVE, UNKNOWN_END)
    else:
        slurm.finish(f"{array}_0")
    slurm.jobs[f"{array}_1"] = replace(
        slurm.jobs[f"{array}_1"], state=JobState.RUNNING, nodes=frozenset({"n1"}), start_s=1.0
    )
    assert UNKNOWN_END in run("jobs").stdout
