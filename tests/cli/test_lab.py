from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from freetrain.cli.main import cli
from freetrain.lab import LabOptions
from freetrain.lab.programs import is_free
from tests.slurm_lab import on_free_ports, short_directory


def test_without_a_lab_the_commands_say_so(tmp_path: Path) -> None:
    for command in (["env"], ["status"], ["down"], ["crash", "n001"], ["ctld", "stop"]):
        result = CliRunner().invoke(cli, ["lab", *command, "--dir", str(tmp_path)])
        assert result.exit_code == 2
        assert "There is no lab in" in result.stderr
        assert "freetrain lab up" in result.stderr


def test_the_directory_may_come_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FREETRAIN_LAB", str(tmp_path / "mine"))
    assert f"no lab in {tmp_path}/mine" in CliRunner().invoke(cli, ["lab", "env"]).stderr


def test_a_setting_without_a_value_is_refused() -> None:
    result = CliRunner().invoke(cli, ["lab", "up", "--set", "KillWait"])
    assert result.exit_code == 2
    assert "KEY=VALUE" in result.stderr


@pytest.mark.slurm
def test_a_lab_from_up_to_down() -> None:
    port = on_free_ports(LabOptions(nodes=2)).base_port

    def lab(*words: str) -> str:
        result = CliRunner().invoke(cli, ["lab", *words, "--dir", str(directory)])
        assert result.exit_code == 0, result.output
        return result.stdout

    with short_directory() as directory:
        told = lab("up", "--nodes", "2", "--port", str(port), "--set", "KillWait=5")
        assert f'eval "$(freetrain lab env --dir {directory})"' in told
        assert lab("env") == f"export SLURM_CONF={shlex.quote(str(directory))}/slurm.conf\n"
        lab("crash", "n002")
        assert "nodes without   n002" in lab("status")
        lab("node", "n002", "start")
        assert "2 of 2" in lab("status")
        lab("ctld", "kill")
        assert "slurmctld       does not run" in lab("status")
        lab("ctld", "start")
        lab("down")
        assert is_free(port)
