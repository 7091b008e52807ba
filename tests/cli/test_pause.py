from __future__ import annotations

import time
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from freetrain.cli.main import cli
from freetrain.daemon.controls.site_orders import read_pause
from freetrain.errors import ExitCode


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    config = tmp_path / "freetrain.toml"
    config.write_text(f"[state]\ndirectory = '{tmp_path}'\nstop_file = '{tmp_path}/STOP'\n")
    monkeypatch.setenv("FREETRAIN_CONFIG", str(config))
    return tmp_path


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, arguments)


def test_lending_is_paused_for_a_while_and_resumed(state: Path) -> None:
    result = run("pause", "--for", "2h", "--reason", "new firmware")
    assert result.exit_code == ExitCode.OK
    assert result.stdout.startswith("Nothing more is lent: paused by ")
    assert result.stdout.endswith(" (new firmware).\n")
    assert "this counts from its next start on" in result.stderr
    pause = read_pause(state, time.time())
    assert pause is not None
    assert pause.until_s == pytest.approx(time.time() + 7200, abs=60)
    assert run("resume").stdout == "Nodes are lent again.\n"
    assert read_pause(state, time.time()) is None
    assert run("resume").stdout == "Lending is not paused.\n"


def test_who_resumes_is_told_that_something_else_stops_it(state: Path) -> None:
    run("pause")
    (state / "STOP").touch()
    stops = f" Nothing is lent while {state}/STOP exists: remove it.\n"
    assert run("resume").stdout == f"The pause has ended.{stops}"
    assert run("resume").stdout == f"Lending is not paused.{stops}"


def test_a_dry_run_changes_nothing(state: Path) -> None:
    assert run("pause", "--dry-run").stdout.startswith("would lend nothing more: paused by ")
    assert read_pause(state, time.time()) is None
    run("pause")
    assert run("resume", "--dry-run").stdout == "would end the pause\n"
    assert read_pause(state, time.time()) is not None


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (("--for", "2h", "--until", "2099-01-01T00:00"), "say the same in two ways"),
        (("--until", "2001-01-01T00:00"), "has passed"),
        (("--until", "soon"), "is not a time"),
        (("--for", "soon"), "is not a duration"),
    ],
)
def test_a_wrong_end_is_answered_with_a_sentence(options: tuple[str, ...], complaint: str, state: Path) -> None:
    result = run("pause", *options)
    assert (result.exit_code, complaint in result.stderr) == (ExitCode.USAGE, True)
    assert read_pause(state, time.time()) is None
