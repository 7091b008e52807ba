from __future__ import annotations

from pathlib import Path

import pytest

from freetrain.cli.replay import replay_command
from freetrain.errors import InputError
from freetrain.replay.sweep import FILES, read_sweep

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
