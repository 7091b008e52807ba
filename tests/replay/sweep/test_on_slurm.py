from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from freetrain.errors import StateError
from freetrain.replay.sweep import Cell, do_on_slurm

CELLS = tuple(Cell(number, {"log": f"log {number}"}, ("a b.psv",), f"key{number}") for number in range(3))


class FakeSlurm:
    """Takes arrays, and does one task each time it is asked."""

    def __init__(self, folder: Path, fails: Sequence[str] = ()) -> None:
        self.folder = folder
        self.fails = fails
        self.arrays: dict[str, list[str]] = {}
        self.refuses = ""

    def __call__(self, command: Sequence[str]) -> subprocess.CompletedProcess[str]:
        if command[0] == "sbatch":
            return self.submit(command)
        job = next(part.partition("=")[2] for part in command if part.startswith("--jobs="))
        if not self.arrays.get(job):
            return subprocess.CompletedProcess(command, 1, "", "slurm_load_jobs error: Invalid job id specified")
        self.do(self.arrays[job].pop(0))
        return subprocess.CompletedProcess(command, 0, "R\n" * (len(self.arrays[job]) + 1), "")

    def submit(self, command: Sequence[str]) -> subprocess.CompletedProcess[str]:
        if self.refuses:
            return subprocess.CompletedProcess(command, 1, "", self.refuses)
        job = str(len(self.arrays) + 7)
        self.arrays[job] = Path(command[-1]).with_suffix(".keys").read_text().split()
        return subprocess.CompletedProcess(command, 0, f"{job};cluster\n", "")

    def do(self, key: str) -> None:
        if key in self.fails:
            (self.folder / f"{key}.err").write_text("freetrain: There is no preset 'nas'.\n")
        else:
            (self.folder / f"{key}.json").write_text(json.dumps({"key": key}))


def no_pause(seconds: float) -> None:
    assert seconds > 0


def test_each_replay_is_a_task_and_its_answer_comes_back(tmp_path: Path) -> None:
    slurm = FakeSlurm(tmp_path, fails=["key1"])
    done = {one.cell.key: one for one in do_on_slurm(CELLS, tmp_path, ["--partition=x"], slurm, no_pause)}
    assert done["key0"].document == {"key": "key0"}
    assert done["key1"].document is None
    assert done["key1"].why == "freetrain: There is no preset 'nas'."
    assert len(done) == 3
    assert "replay 'a b.psv' --exact --json" in (tmp_path / "key2.sh").read_text()


def test_who_asks_again_waits_for_what_slurm_still_has(tmp_path: Path) -> None:
    slurm = FakeSlurm(tmp_path)
    first = do_on_slurm(CELLS, tmp_path, (), slurm, no_pause)
    assert next(first).document == {"key": "key0"}
    first.close()
    again = [one.document for one in do_on_slurm(CELLS, tmp_path, (), slurm, no_pause)]
    assert again == [{"key": f"key{number}"} for number in range(3)]
    assert len(slurm.arrays) == 1


def test_what_failed_is_tried_again(tmp_path: Path) -> None:
    list(do_on_slurm(CELLS, tmp_path, (), FakeSlurm(tmp_path, fails=["key1"]), no_pause))
    slurm = FakeSlurm(tmp_path)
    assert all(one.document for one in do_on_slurm(CELLS, tmp_path, (), slurm, no_pause))
    assert list(slurm.arrays) == ["7"]


def test_a_slurm_that_does_not_answer_is_waited_for(tmp_path: Path) -> None:
    slurm = FakeSlurm(tmp_path)
    answers = iter(["", "Unable to contact slurm controller", "Unable to contact slurm controller"])

    def sometimes(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
        trouble = next(answers, "") if command[0] == "squeue" else ""
        return subprocess.CompletedProcess(command, 1, "", trouble) if trouble else slurm(command)

    assert all(one.document for one in do_on_slurm(CELLS, tmp_path, (), sometimes, no_pause))


def test_a_slurm_that_refuses_is_quoted(tmp_path: Path) -> None:
    slurm = FakeSlurm(tmp_path)
    slurm.refuses = "sbatch: error: invalid partition specified: x"
    with pytest.raises(StateError, match="invalid partition"):
        list(do_on_slurm(CELLS, tmp_path, ["--partition=x"], slurm, no_pause))
