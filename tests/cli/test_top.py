from __future__ import annotations

import io
import os
import pty
import select
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from rich.console import Console

from freetrain.cli.jobs import Chosen, draw
from freetrain.cli.main import cli
from freetrain.config import Config
from freetrain.daemon.reports.standing import find_standing
from freetrain.daemon.reports.status import LookStatus, NodeGroup, StatusFile, TrainerStatus

TRAINERS = tuple(
    TrainerStatus(str(number), "news" if number % 2 else "games", "active", why="no idle nodes")
    for number in range(1, 31)
)
ALL = Chosen()
LOOK = LookStatus(
    time_s=0.0,
    took_s=0.1,
    nodes=(NodeGroup("n[1-30]", "lent", "30"), NodeGroup("n[31-40]", "free"), NodeGroup("n[41-60]", "not lent")),
    trainers=(
        replace(TRAINERS[0], account="press"),
        *TRAINERS[1:-1],
        replace(TRAINERS[-1], lent="n[1-30]", samples_done=123456.0, ends={"preempted": 3}),
    ),
)


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Config:
    path = tmp_path / "freetrain.toml"
    path.write_text(f"[state]\ndirectory = '{tmp_path}'\nstop_file = '{tmp_path}/STOP'\n")
    monkeypatch.setenv("FREETRAIN_CONFIG", str(path))
    config = Config.model_validate({"lend": {"mode": "act"}, "state": {"directory": str(tmp_path)}})
    StatusFile(tmp_path, 30.0, False).looked(config, replace(LOOK, time_s=time.time()))
    return config


def drawn(config: Config, chosen: Chosen = ALL, max_rows: int | None = None, width: int = 100) -> str:
    console = Console(file=io.StringIO(), width=width, markup=False, highlight=False)
    console.print(draw(find_standing(config), chosen, max_rows, width))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_nodes_are_a_bar_and_who_has_most_of_them_comes_first(config: Config) -> None:
    lines = drawn(config).splitlines()
    assert lines[0].startswith("The daemon (process")
    assert "#" * 30 + "=" * 10 + "-" * 20 in lines
    assert "30 lent  10 free  0 asked for  0 due back  20 not lent" in drawn(config)
    header = next(number for number, line in enumerate(lines) if line.startswith("TRAINING"))
    assert lines[header + 1].split() == ["30", "games", "30", "0", "123,456", "3", "running"]
    assert lines[header + 2].split()[-3:] == ["no", "idle", "nodes"]


def test_no_line_is_wider_than_the_terminal_and_none_more_than_it_is_high(config: Config) -> None:
    lines = drawn(config, max_rows=5, width=60).splitlines()
    assert max(map(len, lines)) <= 60
    assert sum("no idle" in line or "running" in line for line in lines) <= 5
    assert "25 more" in drawn(config, max_rows=5)


def test_one_users_trainings_can_be_chosen(config: Config) -> None:
    assert "games" not in drawn(config, Chosen(users=frozenset({"news"})))
    assert "No such training waits or runs." in drawn(config, Chosen(users=frozenset({"nobody"})))


@pytest.mark.usefixtures("config")
def test_trainings_are_chosen_as_by_squeue() -> None:
    def listed(*options: str) -> set[str]:
        lines = CliRunner().invoke(cli, ["top", "--once", *options]).stdout.splitlines()
        header = next((number for number, line in enumerate(lines) if line.startswith("TRAINING")), len(lines))
        return {line.split()[0] for line in lines[header + 1 :]}

    assert listed("-t", "running") == listed("-t", "R") == listed("-w", "n[7,99]") == {"30"}
    assert listed("-t", "PD", "-u", "games") == {str(number) for number in range(2, 30, 2)}
    assert listed("-A", "press") == {"1"}
    assert listed("-A", "press", "-t", "running") == set()


def test_without_a_daemon_only_that_is_shown(config: Config, tmp_path: Path) -> None:
    (tmp_path / "status.json").unlink()
    assert drawn(config).startswith("No daemon is at work here")
    assert len(drawn(config, width=200).splitlines()) == 1


@pytest.mark.usefixtures("config")
def test_outside_of_a_terminal_it_is_printed_once_without_colour() -> None:
    result = CliRunner().invoke(cli, ["top"])
    assert result.exit_code == 0
    assert "TRAINING" in result.stdout
    assert "\x1b" not in result.stdout


@pytest.mark.usefixtures("config")
def test_in_a_terminal_it_is_drawn_until_q_is_pressed() -> None:
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "freetrain", "top", "--interval", "0.2"]
    environment = os.environ | {"TERM": "xterm", "COLUMNS": "100", "LINES": "40"}
    program = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment)
    os.close(theirs)
    seen = b""
    until_s = time.monotonic() + 60
    while seen.count(b"TRAINING") < 2 and time.monotonic() < until_s:
        if select.select([ours], [], [], 1.0)[0]:
            seen += os.read(ours, 65536)
    os.write(ours, b"q")
    until_s = time.monotonic() + 60
    while program.poll() is None and time.monotonic() < until_s:
        if select.select([ours], [], [], 0.1)[0]:
            try:
                seen += os.read(ours, 65536)
            except OSError:  # the other end is closed
                break
    assert program.wait(timeout=60) == 0
    os.close(ours)
    assert seen.count(b"TRAINING") >= 2, "it is drawn again and again"
    assert b"\x1b[?1049l" in seen, "the screen is as it was before"
