from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from freetrain.cli.main import cli
from freetrain.cli.sweep import check
from freetrain.replay.sweep import read_sweep
from freetrain.store import Store
from tests.cli.test_replay import LOG

pytestmark = pytest.mark.slow

SPEC = """
format = "freetrain-sweep/1"
name = "small"

[options]
trainers = "preset:hpo"
as = "ideal"

[logs.june]
files = "june.psv"
[logs.july]
files = "july.psv"

[vary]
policy = ["freetrain", "equal-share"]
"""


def write_spec(directory: Path) -> Path:
    """The description of a sweep, beside its logs."""
    (directory / "june.psv").write_text(LOG)
    (directory / "july.psv").write_text(LOG.replace("2024-06", "2024-07"))
    path = directory / "spec.toml"
    path.write_text(SPEC)
    return path


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    return write_spec(tmp_path)


def freetrain(*arguments: str | Path) -> Result:
    return CliRunner().invoke(cli, [str(argument) for argument in arguments])


def figures(document: dict[str, Any]) -> list[Any]:
    """A table without the numbers of its runs."""
    return [{name: value for name, value in run.items() if name != "id"} for run in document["runs"]]


def table(spec: Path, store: Path) -> list[Any]:
    result = freetrain("sweep", spec, "--store", store, "--quiet", "--json")
    assert result.exit_code == 0, result.output
    return figures(json.loads(result.stdout))


@dataclass
class Swept:
    """A sweep that has been done from its beginning to its end."""

    spec: Path
    store: Path
    picture: Path
    result: Result


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> Swept:
    directory = tmp_path_factory.mktemp("swept")
    spec, store, picture = write_spec(directory), directory / "runs.db", directory / "sweep.html"
    return Swept(spec, store, picture, freetrain("sweep", spec, "--store", store, "--picture", picture))


def test_a_sweep_is_done_once_and_compared(swept: Swept) -> None:
    spec, store, result = swept.spec, swept.store, swept.result
    assert result.exit_code == 0, result.output
    assert "4 of 4: " in result.stderr
    lines = result.stdout.splitlines()
    assert lines[0].split()[:2] == ["log", "policy"]
    assert [line.split()[:2] for line in lines[1:]] == [
        ["june", "freetrain"],
        ["june", "equal-share"],
        ["july", "freetrain"],
        ["july", "equal-share"],
    ]
    assert swept.picture.read_text().count('class="track"') == 4
    again = freetrain("sweep", spec, "--store", store)
    assert again.stdout == result.stdout
    assert "of 4" not in again.stderr
    assert len(Store.open_existing(store).runs()) == 4
    compared = freetrain("runs", "compare", "--sweep", "small", "--store", store)
    assert compared.stdout == result.stdout


def test_what_cannot_be_an_option_is_refused_before_anything_is_begun(spec: Path, tmp_path: Path) -> None:
    for line, complaint in (
        ('polcy = "greedy"', "No such option"),
        ("poll = -1", "--poll"),
        ("json = true", "cannot set --json"),
    ):
        spec.write_text(SPEC.replace("[options]", f"[options]\n{line}"))
        result = freetrain("sweep", spec, "--store", tmp_path / "runs.db")
        assert result.exit_code == 2
        assert complaint in result.stderr
    assert not (tmp_path / "runs.db").exists()


def test_what_cannot_work_at_the_end_is_refused_before_anything_is_begun(spec: Path, tmp_path: Path) -> None:
    slurm = ("--executor", "slurm", "--folder", tmp_path / "array")
    for options, exit_code, complaint in (
        (("--picture", tmp_path / "none" / "sweep.html"), 74, "is no directory that you may write to"),
        (("--picture", tmp_path), 74, "it is a directory"),
        (
            (*slurm, "--sbatch", "--comment='half"),
            2,
            "--sbatch --comment='half cannot be read: No closing quotation",
        ),
    ):
        result = freetrain("sweep", spec, "--store", tmp_path / "runs.db", *options)
        assert result.exit_code == exit_code
        assert complaint in result.stderr
    assert not (tmp_path / "array").exists()


def test_a_replay_that_fails_is_named_and_the_others_are_kept(spec: Path, tmp_path: Path) -> None:
    (tmp_path / "july.psv").write_text("no log\n")
    result = freetrain("sweep", spec, "--store", tmp_path / "runs.db")
    assert result.exit_code == 1
    assert "2 of 4 replays failed: july, " in result.stderr
    assert len(result.stdout.splitlines()) == 3


@contextmanager
def sweeping(spec: Path, store: Path) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "freetrain", "sweep", str(spec), "--store", str(store), "--workers", "1"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("number", [pytest.param(signal.SIGTERM, marks=pytest.mark.soak), signal.SIGKILL])
def test_a_sweep_that_is_killed_in_the_middle_and_resumed_gives_the_same_table(
    swept: Swept, tmp_path: Path, number: signal.Signals
) -> None:
    resumed = tmp_path / "resumed.db"
    with sweeping(swept.spec, resumed) as process:
        assert process.stderr is not None
        assert process.stderr.readline().startswith("1 of 4: ")
        process.send_signal(number)
        process.wait()
    done = len(Store.open_existing(resumed).runs())
    assert 1 <= done < 4
    assert table(swept.spec, resumed) == table(swept.spec, swept.store)
    runs = Store.open_existing(resumed).runs()
    assert sum(run.status == "complete" for run in runs) == 4


def test_a_sweep_that_is_told_to_end_leaves_no_replay_behind(spec: Path, tmp_path: Path) -> None:
    with sweeping(spec, tmp_path / "runs.db") as process:
        children = wait_for_children(process.pid)
        process.send_signal(signal.SIGTERM)
        assert process.wait() == 128 + signal.SIGTERM
    assert not [child for child in children if Path(f"/proc/{child}").exists()]


def wait_for_children(pid: int) -> list[int]:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        found: list[int] = []
        for children in Path(f"/proc/{pid}/task").glob("*/children"):
            with suppress(OSError):  # of a thread that has ended
                found += map(int, children.read_text().split())
        if found:
            return found
        time.sleep(0.02)
    raise AssertionError("no replay was begun")


def test_the_sweep_behind_the_published_results_is_one(tmp_path: Path) -> None:
    spec = Path(__file__).parents[2] / "benchmarks" / "results.toml"
    for log in tomllib.loads(spec.read_text())["logs"].values():
        (tmp_path / log["files"]).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / log["files"]).write_text("")
    cells = read_sweep(spec, tmp_path).cells
    assert len(cells) == len({cell.key for cell in cells}) == 32 * len({cell.labels["log"] for cell in cells})
    for cell in cells:
        check(cell)
