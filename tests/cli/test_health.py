from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from freetrain.cli.main import cli
from freetrain.cli.status import Health
from freetrain.config import Config
from freetrain.daemon.controls import site_orders
from freetrain.daemon.reports.status import LookStatus, NodeGroup, StatusFile, TrainerStatus

LOOK = LookStatus(
    time_s=0.0,
    took_s=0.1,
    nodes=(NodeGroup("n[1-3]", "lent", "1"), NodeGroup("n4", "free"), NodeGroup("n5", "not lent", why="job 9")),
    trainers=(TrainerStatus("1", "news", "active"),),
)


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    config = tmp_path / "freetrain.toml"
    config.write_text(f"[state]\ndirectory = '{tmp_path}'\nstop_file = '{tmp_path}/STOP'\n")
    monkeypatch.setenv("FREETRAIN_CONFIG", str(config))
    return tmp_path


def publish(state: Path, look: LookStatus | None = LOOK) -> StatusFile:
    file = StatusFile(state, 30.0, False)
    file.looked(Config(), look and replace(look, time_s=time.time()))
    return file


def health() -> Result:
    return CliRunner().invoke(cli, ["health"])


def test_all_is_well(state: Path) -> None:
    publish(state)
    result = health()
    assert result.exit_code == Health.OK
    assert result.stdout.startswith("FREETRAIN OK - mode observe, last look 0 s ago | ")
    assert result.stdout.endswith("| free=1 lent=3 asked_for=0 due_back=0 trainers=1\n")
    document = json.loads(CliRunner().invoke(cli, ["health", "--json"]).stdout)
    assert (document["format"], document["health"]) == ("freetrain-health/1", "OK")


@pytest.mark.parametrize(
    ("look", "why"),
    [
        (None, "the daemon has not looked yet"),
        (
            replace(
                LOOK,
                stopped_by="backing off until 2026-01-31T12:00:00Z: the site's own jobs had to wait",
            ),
            "nothing is lent: backing off until",
        ),
        (replace(LOOK, paused_by="paused by root"), "nothing more is lent: paused by root"),
        (
            replace(LOOK, rejected=2, rejected_examples=("job 8",)),
            "2 lines of Slurm's were not understood, as job 8",
        ),
        (replace(LOOK, cannot_wake="slurm cannot write it"), "slurm cannot write it"),
    ],
)
def test_what_an_admin_should_look_at_is_a_warning(state: Path, look: LookStatus | None, why: str) -> None:
    publish(state, look)
    result = health()
    assert (result.exit_code, why in result.stdout) == (Health.WARNING, True), result.stdout


def test_a_stop_file_that_the_daemon_has_not_seen_yet_counts(state: Path) -> None:
    publish(state)
    (state / "STOP").touch()
    assert f"stopped by {state}/STOP" in health().stdout


def test_a_stop_file_in_a_directory_that_outlives_the_machines_restart_counts(
    state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(state)
    monkeypatch.setattr(site_orders, "LASTING", str(state / "etc-STOP"))
    assert "stopped by" not in health().stdout
    (state / "etc-STOP").touch()
    assert f"stopped by {state}/etc-STOP" in health().stdout


def test_no_daemon_and_a_silent_slurm_are_critical(state: Path) -> None:
    assert health().exit_code == Health.CRITICAL
    publish(state).silent("slurmctld is \x1b[31maway")
    result = health()
    assert (result.exit_code, "Slurm does not answer: slurmctld is ?[31maway" in result.stdout) == (2, True)
    publish(state).silent("Slurm does not answer squeue: connect failure")
    assert "CRITICAL - Slurm does not answer squeue: connect failure |" in health().stdout
    publish(state).stopped()
    assert "CRITICAL - no daemon is at work: it was stopped" in health().stdout


def test_what_cannot_be_read_is_unknown(state: Path) -> None:
    (state / "status.json").write_text("{")
    assert health().exit_code == Health.UNKNOWN
    (state / "freetrain.toml").write_text("[lend\n")
    result = health()
    assert (result.exit_code, "UNKNOWN" in result.stdout) == (Health.UNKNOWN, True)
