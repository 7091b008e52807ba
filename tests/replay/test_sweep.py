"""Sweeps: their file, and their replays as tasks of a Slurm array."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from freetrain.cli.replay import replay_command
from freetrain.errors import InputError, StateError
from freetrain.replay.sweep import FILES, Cell, do_on_slurm, read_sweep

SPEC = """
format = "freetrain-sweep/1"

[options]
trainers = "preset:hpo"

[logs.june]
files = ["june.psv"]
only-nodes = "c[1-2]"
[logs.july]
files = "july.psv"

[vary]
policy = ["freetrain", "greedy"]

[vary.costs.small]
scale-up = 0.5
[vary.costs.published]
published-losses = true
ignore-partition = ["a", "b"]
"""


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    for name in ("june.psv", "july.psv"):
        (tmp_path / name).write_text(name)
    path = tmp_path / "first.toml"
    path.write_text(SPEC)
    return path


def test_every_value_meets_every_other_in_the_order_of_the_file(spec: Path) -> None:
    sweep = read_sweep(spec)
    assert sweep.name == "first"
    assert [cell.name for cell in sweep.cells] == [
        f"{log}, {policy}, {costs}"
        for log in ("june", "july")
        for policy in ("freetrain", "greedy")
        for costs in ("small", "published")
    ]
    assert sweep.cells[0].labels == {"log": "june", "policy": "freetrain", "costs": "small"}
    assert sweep.cells[0].arguments == (
        str(spec.parent / "june.psv"), "--trainers", "preset:hpo", "--only-nodes", "c[1-2]",
        "--policy", "freetrain", "--scale-up", "0.5",
    )  # fmt: skip
    assert sweep.cells[7].arguments[-5:] == (
        "--published-losses", "--ignore-partition", "a", "--ignore-partition", "b",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("given", "passed"), [("600.0", "600"), ("0.1234567891", "0.1234567891"), ("1e-7", "1e-07")]
)
def test_a_number_is_passed_on_with_all_its_digits(spec: Path, given: str, passed: str) -> None:
    spec.write_text(f'format = "freetrain-sweep/1"\n[logs.a]\nfiles = "june.psv"\nlost = {given}\n')
    (cell,) = read_sweep(spec).cells
    assert cell.arguments[-2:] == ("--lost", passed)


def test_a_replay_is_known_by_all_that_its_outcome_depends_on(spec: Path) -> None:
    before = [cell.key for cell in read_sweep(spec).cells]
    assert len(set(before)) == 8
    moved = spec.parent / "elsewhere"
    moved.mkdir()
    (spec.parent / "july.psv").rename(moved / "july.psv")
    assert [cell.key for cell in read_sweep(spec, moved).cells] == before
    (moved / "july.psv").unlink()
    (moved / "july.psv").symlink_to(spec)
    after = [cell.key for cell in read_sweep(spec, moved).cells]
    assert after[:4] == before[:4]
    assert not set(after[4:]) & set(before)


def test_files_that_options_name_are_found_too(spec: Path) -> None:
    for name in ("t.json", "freetrain.toml", "m.toml"):
        (spec.parent / name).write_text("")
    spec.write_text(
        'format = "freetrain-sweep/1"\n[logs.a]\nfiles = "june.psv"\nmachine = "m.toml"\n'
        '[options]\ntrainers = "t.json"\nas = "daemon=freetrain.toml"\n'
    )
    (cell,) = read_sweep(spec).cells
    assert cell.arguments[2] == str(spec.parent / "t.json")
    assert cell.arguments[4] == f"daemon={spec.parent / 'freetrain.toml'}"
    assert cell.arguments[6] == str(spec.parent / "m.toml")


def test_options_that_name_files_are_those_of_the_command() -> None:
    known = {option.removeprefix("--") for parameter in replay_command.params for option in parameter.opts}
    assert known >= FILES | {"trainers", "as"}


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("format = 1", "describes no sweep"),
        ('format = "freetrain-sweep/1"', "logs: is missing"),
        ('format = "freetrain-sweep/1"\n[logs.a]\nnodes = 3', "files: is missing"),
        ('format = "freetrain-sweep/1"\n[logs.a]\nfiles = "none.psv"', "names none.psv, which is not in"),
        ("format = ", "is not TOML"),
    ],
)
def test_what_is_wrong_is_named(spec: Path, text: str, complaint: str) -> None:
    spec.write_text(text)
    with pytest.raises(InputError, match=complaint):
        read_sweep(spec)


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
    done = {replay.cell.key: replay for replay in do_on_slurm(CELLS, tmp_path, ["--partition=x"], slurm, no_pause)}
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
    again = [replay.document for replay in do_on_slurm(CELLS, tmp_path, (), slurm, no_pause)]
    assert again == [{"key": f"key{number}"} for number in range(3)]
    assert len(slurm.arrays) == 1


def test_what_failed_is_tried_again(tmp_path: Path) -> None:
    list(do_on_slurm(CELLS, tmp_path, (), FakeSlurm(tmp_path, fails=["key1"]), no_pause))
    slurm = FakeSlurm(tmp_path)
    assert all(replay.document for replay in do_on_slurm(CELLS, tmp_path, (), slurm, no_pause))
    assert list(slurm.arrays) == ["7"]


def test_a_slurm_that_does_not_answer_is_waited_for(tmp_path: Path) -> None:
    slurm = FakeSlurm(tmp_path)
    answers = iter(["", "Unable to contact slurm controller", "Unable to contact slurm controller"])

    def sometimes(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
        trouble = next(answers, "") if command[0] == "squeue" else ""
        return subprocess.CompletedProcess(command, 1, "", trouble) if trouble else slurm(command)

    assert all(replay.document for replay in do_on_slurm(CELLS, tmp_path, (), sometimes, no_pause))


def test_a_slurm_that_refuses_is_quoted(tmp_path: Path) -> None:
    slurm = FakeSlurm(tmp_path)
    slurm.refuses = "sbatch: error: invalid partition specified: x"
    with pytest.raises(StateError, match="invalid partition"):
        list(do_on_slurm(CELLS, tmp_path, ["--partition=x"], slurm, no_pause))
