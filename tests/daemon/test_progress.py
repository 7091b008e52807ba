from __future__ import annotations

import getpass
import json
import os
from pathlib import Path

import pytest

from freetrain.daemon.progress import Place, ProgressReader, read_report

ME = getpass.getuser()
RATE = {
    "event": "rate",
    "time_s": 1.0,
    "generation": 1,
    "world": 2,
    "nodes": 2,
    "step": 9,
    "epoch": 0,
    "samples_done": 640,
    "samples": 320,
    "elapsed_s": 5.0,
    "samples_per_s": 64.0,
    "step_s": 0.1,
    "compute_s": 0.1,
    "communication_s": 0.0,
    "data_wait_share": 0.0,
}


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    write(tmp_path, RATE)
    return tmp_path


def write(directory: Path, *lines: dict[str, object]) -> None:
    with (directory / "progress.jsonl").open("a") as stream:
        stream.writelines(json.dumps(line) + "\n" for line in lines)


def test_rates_become_observations_and_are_read_only_once(directory: Path) -> None:
    first = read_report(Place(str(directory), ME, 0))
    assert [(seen.nodes, seen.samples_per_s, seen.weight) for seen in first.observations] == [(2, 64.0, 5.0)]
    assert (first.finished, first.samples_done) == (False, 640.0)
    assert read_report(Place(str(directory), ME, first.offset_bytes)).observations == ()
    write(directory, {**RATE, "samples_done": 960})
    assert read_report(Place(str(directory), ME, first.offset_bytes)).samples_done == 960.0


def test_a_directory_that_says_nothing_is_no_news(tmp_path: Path) -> None:
    assert read_report(Place(str(tmp_path), ME, 7)).finished is None
    assert read_report(Place("/nowhere/at/all", ME, 7)).offset_bytes == 7


def test_only_the_owners_own_plain_files_are_believed(directory: Path) -> None:
    (directory / "finished.json").write_text("{}")
    assert read_report(Place(str(directory), ME, 0)).finished
    assert read_report(Place(str(directory), "nobody", 0)).finished is None
    elsewhere = directory / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "progress.jsonl").symlink_to(directory / "progress.jsonl")
    assert read_report(Place(str(elsewhere), ME, 0)).finished is None
    (elsewhere / "progress.jsonl").unlink()
    os.mkfifo(elsewhere / "progress.jsonl")
    assert read_report(Place(str(elsewhere), ME, 0)).finished is None  # and does not wait for a writer


def test_nonsense_in_the_file_is_no_observation(directory: Path) -> None:
    write(directory, {**RATE, "nodes": 0}, {**RATE, "samples_per_s": -1.0}, {"event": "rate"}, {"event": "evil"})
    assert len(read_report(Place(str(directory), ME, 0)).observations) == 1


def test_the_reader_tells_when_a_training_has_been_completed(directory: Path) -> None:
    reader = ProgressReader()
    reader.look_at({"7": Place(str(directory), ME, 0)})
    assert not reader.read()
    (directory / "finished.json").write_text("{}")
    assert reader.read()
    assert not reader.read()
    assert reader.reports()["7"].finished
