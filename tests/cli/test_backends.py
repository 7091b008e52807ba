"""Commands take the door to Slurm that the site has chosen."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from freetrain.cli.main import cli
from freetrain.errors import ExitCode
from tests.cli.fake_slurm import CONFIG, FakeSlurm
from tests.slurm.test_pyslurm_guest import play


@pytest.fixture
def slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeSlurm:
    """Only orders can be given through its commands; pyslurm was asked for."""
    config = tmp_path / "freetrain.toml"
    config.write_text(f"[slurm]\nbackend = 'pyslurm'\n[state]\ndirectory = '{tmp_path}/state'\n")
    monkeypatch.setenv("FREETRAIN_CONFIG", str(config))
    fake = FakeSlurm.on_path(tmp_path / "bin", monkeypatch, "squeue", "scontrol", "sbatch")
    fake.answers("scontrol", CONFIG, when="show config")
    return fake


LOOKING = [["jobs"], ["nodes"], ["resume", "7"], ["register", "7", "--nodes", "1"], ["drain", "c1"]]


@pytest.mark.parametrize("command", LOOKING, ids=lambda command: command[0])
def test_pyslurm_that_was_asked_for_and_is_not_there_is_missed(
    slurm: FakeSlurm, command: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    play("not installed", monkeypatch)
    result = CliRunner().invoke(cli, command)
    assert result.exit_code == ExitCode.CONFIGURATION
    assert "slurm.backend is 'pyslurm', which cannot be used here" in result.stderr
    assert "squeue" not in [call[0] for call in slurm.calls]


@pytest.mark.parametrize("command", LOOKING, ids=lambda command: command[0])
def test_what_a_command_wants_to_know_pyslurm_tells(
    slurm: FakeSlurm, command: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    play("well", monkeypatch)
    CliRunner().invoke(cli, command)
    assert "squeue" not in [call[0] for call in slurm.calls]
    assert ["scontrol", "-a", "-o", "show", "nodes"] not in slurm.calls


def test_who_submits_does_not_wait_for_pyslurm(
    slurm: FakeSlurm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", "/nonexistent")
    slurm.answers("sbatch", "4711\n")
    script = tmp_path / "train.sh"
    script.write_text("#!/bin/sh\n")
    result = CliRunner().invoke(cli, ["submit", "--nodes", "2", str(script)])
    assert (result.exit_code, result.stdout) == (0, "4711\n")


@pytest.mark.parametrize("command", [*LOOKING, ["daemon"]], ids=lambda command: command[0])
def test_a_configuration_of_slurms_that_cannot_be_read_is_said_at_once(
    slurm: FakeSlurm, command: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURM_CONF", "/nowhere/slurm.conf")
    result = CliRunner().invoke(cli, command)
    assert result.exit_code == ExitCode.UNREACHABLE
    assert "SLURM_CONF names /nowhere/slurm.conf, which cannot be read" in result.stderr
    assert slurm.calls == []
