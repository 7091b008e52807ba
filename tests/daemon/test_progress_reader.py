from __future__ import annotations

import getpass
import itertools
import json
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from freetrain.core.data_wait import DataWait, WaitProfile
from freetrain.core.known_trainer import NOTHING_MISREAD, Misread
from freetrain.daemon.trainers import progress_reader
from freetrain.daemon.trainers.progress_reader import ProgressFiles, ProgressReader, Report, read_report
from tests.hostile import RATE

ME = getpass.getuser()


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    write(tmp_path, RATE)
    return tmp_path


def write(directory: Path, *lines: dict[str, object]) -> None:
    with (directory / "progress.jsonl").open("a") as stream:
        stream.writelines(json.dumps(line) + "\n" for line in lines)


def test_rates_become_observations_and_are_read_only_once(directory: Path) -> None:
    first = read_report(ProgressFiles(str(directory), ME, 0))
    assert [(seen.nodes, seen.samples_per_s, seen.weight) for seen in first.observations] == [(2, 64.0, 5.0)]
    assert (first.finished, first.samples_done) == (False, 640.0)
    assert read_report(ProgressFiles(str(directory), ME, first.offset_bytes)).observations == ()
    write(directory, {**RATE, "samples_done": 960})
    assert read_report(ProgressFiles(str(directory), ME, first.offset_bytes)).samples_done == 960.0


def test_a_directory_that_says_nothing_is_no_news(tmp_path: Path) -> None:
    assert read_report(ProgressFiles(str(tmp_path), ME, 7)).finished is None
    assert read_report(ProgressFiles("/nowhere/at/all", ME, 7)).offset_bytes == 7


def test_only_the_owners_own_plain_files_are_believed(directory: Path) -> None:
    (directory / "finished.json").write_text("{}")
    assert read_report(ProgressFiles(str(directory), ME, 0)).finished
    assert read_report(ProgressFiles(str(directory), "nobody", 0)).finished is None
    elsewhere = directory / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "progress.jsonl").symlink_to(directory / "progress.jsonl")
    assert read_report(ProgressFiles(str(elsewhere), ME, 0)).finished is None
    (elsewhere / "progress.jsonl").unlink()
    os.mkfifo(elsewhere / "progress.jsonl")
    assert read_report(ProgressFiles(str(elsewhere), ME, 0)).finished is None  # and does not wait for a writer


def test_nonsense_in_the_file_is_no_observation(directory: Path) -> None:
    write(directory, {**RATE, "nodes": 0}, {**RATE, "samples_per_s": -1.0}, {"event": "rate"}, {"event": "evil"})
    assert len(read_report(ProgressFiles(str(directory), ME, 0)).observations) == 1


def test_what_is_not_a_plain_file_of_the_owners_is_a_fault(directory: Path) -> None:
    assert (
        read_report(ProgressFiles(str(directory), "nobody", 0)).fault == "progress.jsonl belongs to another user"
    )
    (directory / "progress.jsonl").unlink()
    (directory / "progress.jsonl").mkdir()
    assert read_report(ProgressFiles(str(directory), ME, 0)).fault == "progress.jsonl is not a plain file"
    assert read_report(ProgressFiles("/nowhere/at/all", ME, 7)).fault == ""


@pytest.mark.parametrize("kind", ["pipe", "folder", "link"])
def test_only_a_plain_file_says_that_a_training_is_finished(directory: Path, kind: str) -> None:
    finished = directory / "finished.json"
    {"pipe": os.mkfifo, "folder": os.mkdir, "link": lambda path: path.symlink_to("progress.jsonl")}[kind](finished)
    assert read_report(ProgressFiles(str(directory), ME, 0)).finished is False


def test_lines_that_are_not_believed_are_counted_with_the_first_of_them(directory: Path) -> None:
    good_bytes = (directory / "progress.jsonl").stat().st_size
    write(directory, {**RATE, "samples_per_s": float("inf")}, RATE, {**RATE, "nodes": 10**400})
    report = read_report(ProgressFiles(str(directory), ME, 0))
    assert len(report.observations) == 2
    assert report.misread == Misread(2, good_bytes, "samples_per_s is not finite")
    assert str(report.misread) == (
        "2 lines of its progress were not understood: "
        f"the first, at byte {good_bytes}, because samples_per_s is not finite"
    )
    later = NOTHING_MISREAD.and_then(report.misread).and_then(Misread(1, 999, "else"))
    assert later == Misread(3, good_bytes, "samples_per_s is not finite")
    assert str(NOTHING_MISREAD) == ""


def test_more_nodes_than_there_are_is_not_believed(directory: Path) -> None:
    assert read_report(ProgressFiles(str(directory), ME, 0, most_nodes=2)).observations
    assert read_report(ProgressFiles(str(directory), ME, 0, most_nodes=1)).misread.lines == 1


def test_a_file_that_is_shorter_than_what_was_read_of_it_is_read_from_its_beginning(directory: Path) -> None:
    write(directory, RATE, RATE)
    read_bytes = read_report(ProgressFiles(str(directory), ME, 0)).offset_bytes
    (directory / "progress.jsonl").write_text("")
    assert read_report(ProgressFiles(str(directory), ME, read_bytes)).offset_bytes == 0
    write(directory, {**RATE, "samples_done": 3})
    report = read_report(ProgressFiles(str(directory), ME, read_bytes))
    assert (report.samples_done, report.misread.lines) == (3.0, 0)


def test_a_file_that_is_replaced_by_a_longer_one_is_read_on_from_a_whole_line(directory: Path) -> None:
    read_bytes = read_report(ProgressFiles(str(directory), ME, 0)).offset_bytes
    (directory / "progress.jsonl").unlink()
    write(directory, {**RATE, "samples_done": 1_234_567}, {**RATE, "samples_done": 1_234_568})
    report = read_report(ProgressFiles(str(directory), ME, read_bytes))
    assert (report.samples_done, report.misread.lines) == (1_234_568.0, 0)


def test_a_swap_between_two_looks_is_seen_at_the_second(directory: Path) -> None:
    reader = ProgressReader()
    reader.look_at({"7": ProgressFiles(str(directory), ME, 0)})
    reader.read()
    assert reader.reports()["7"].fault == ""
    (directory / "progress.jsonl").unlink()
    os.mkfifo(directory / "progress.jsonl")
    began_s = time.monotonic()
    reader.read()
    assert reader.reports()["7"].fault == "progress.jsonl is not a plain file"
    assert time.monotonic() - began_s < 30


def test_what_is_swapped_all_the_time_is_read_or_refused_but_never_waited_for(directory: Path) -> None:
    """A racing owner puts a pipe, a link to a pipe, and the file in turn in the same place."""
    (directory / "progress.jsonl").rename(directory / "plain")
    os.mkfifo(directory / "pipe")
    (directory / "link").symlink_to(directory / "pipe")
    stop = threading.Event()
    looks: list[bool] = []

    def swap() -> None:
        for kind in itertools.cycle(("pipe", "link", "plain")):
            if stop.is_set():
                return
            os.link(directory / kind, directory / "next", follow_symlinks=False)
            (directory / "next").replace(directory / "progress.jsonl")

    def look() -> None:
        while min(looks.count(True), looks.count(False)) < 200:
            looks.append(read_report(ProgressFiles(str(directory), ME, 0)).samples_done == 640.0)

    racer, looker = threading.Thread(target=swap), threading.Thread(target=look, daemon=True)
    racer.start()
    looker.start()
    looker.join(60.0)
    stop.set()
    racer.join()
    assert not looker.is_alive()


class HangingDirectories:
    """Directories named *hangs* answer only when they are let go; as a file server that is away would have it."""

    def __init__(self) -> None:
        self.let_go = threading.Event()
        self.asked: list[str] = []
        self._read = progress_reader.read_report

    def read_report(self, place: ProgressFiles, most_bytes: int) -> Report:
        self.asked.append(Path(place.directory).name)
        if Path(place.directory).name.startswith("hangs"):
            self.let_go.wait(60)
        return self._read(place, most_bytes)


@pytest.fixture
def hanging(monkeypatch: pytest.MonkeyPatch) -> Iterator[HangingDirectories]:
    directories = HangingDirectories()
    monkeypatch.setattr(progress_reader, "read_report", directories.read_report)
    monkeypatch.setattr(progress_reader, "_COMES_BACK_S", 0.05)
    yield directories
    directories.let_go.set()


def places(tmp_path: Path, *names: str) -> dict[str, ProgressFiles]:
    """A directory for each, with progress; the owner is me."""
    for name in names:
        (tmp_path / name).mkdir()
        write(tmp_path / name, RATE)
    return {name: ProgressFiles(str(tmp_path / name), ME, 0) for name in names}


def eventually_read(reader: ProgressReader, trainer: str) -> bool:
    deadline_s = time.monotonic() + 30
    while trainer not in reader.reports() and time.monotonic() < deadline_s:
        reader.read()
        time.sleep(0.01)
    return reader.reports()[trainer].samples_done > 0


def test_a_directory_that_hangs_stops_no_other_and_is_said(tmp_path: Path, hanging: HangingDirectories) -> None:
    reader = ProgressReader(stuck_s=0.1)
    mine = places(tmp_path, "hangs", "works", "hangs-too", "works-too")
    others = {"other": ProgressFiles(mine["works"].directory, "nobody", 0)}
    reader.look_at(mine | others)
    reader.read()
    deadline_s = time.monotonic() + 30
    while "other" not in reader.reports() and time.monotonic() < deadline_s:
        time.sleep(0.001)
    assert "other" in reader.reports()  # another owner's are read at once
    assert eventually_read(reader, "works")
    assert eventually_read(reader, "works-too")
    reader.read()
    assert reader.reports()["hangs"].fault == "its directory does not answer"
    hanging.let_go.set()
    deadline_s = time.monotonic() + 30
    while any(reader.reports()[name].fault for name in mine) and time.monotonic() < deadline_s:
        reader.read()
    assert [reader.reports()[name].samples_done for name in mine] == [640.0] * 4


def test_of_one_owner_only_so_many_directories_are_left_hanging(
    tmp_path: Path, hanging: HangingDirectories, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress_reader, "_MOST_STUCK", 3)
    monkeypatch.setattr(progress_reader, "_COMES_BACK_S", 0.01)
    reader = ProgressReader(stuck_s=0.01)
    reader.look_at(places(tmp_path, *(f"hangs-{number}" for number in range(8))))
    deadline_s = time.monotonic() + 30
    while len(hanging.asked) < 3 and time.monotonic() < deadline_s:
        reader.read()
        time.sleep(0.02)
    for _ in range(20):
        reader.read()
        time.sleep(0.02)
    assert sorted(hanging.asked) == ["hangs-0", "hangs-1", "hangs-2"]
    reader.look_at({})  # nor may he begin again with other trainers
    reader.read()
    reader.look_at(places(tmp_path, "hangs-again"))
    reader.read()
    assert len(hanging.asked) == 3


def test_the_reader_tells_when_a_training_has_been_completed(directory: Path) -> None:
    reader = ProgressReader()
    reader.look_at({"7": ProgressFiles(str(directory), ME, 0)})
    assert not reader.read()
    (directory / "finished.json").write_text("{}")
    assert reader.read()
    assert not reader.read()
    assert reader.reports()["7"].finished


def test_how_long_a_training_waits_for_data_is_remembered_until_it_says_so_again(directory: Path) -> None:
    write(directory, {**RATE, "data_wait_share": 0.5, "elapsed_s": 15.0})
    first = read_report(ProgressFiles(str(directory), ME, 0))
    assert first.data_wait == WaitProfile(
        (DataWait(pytest.approx((RATE["data_wait_share"] * 5 + 0.5 * 15) / 20)),)
    )
    reader = ProgressReader()
    reader.look_at({"7": ProgressFiles(str(directory), ME, 0)})
    reader.read()
    reader.look_at({"7": ProgressFiles(str(directory), ME, first.offset_bytes)})
    reader.read()
    assert reader.reports()["7"].observations == ()
    assert reader.reports()["7"].data_wait == first.data_wait


def test_who_waits_no_longer_with_more_cpus_is_known_to_wait_with_fewer(directory: Path) -> None:
    (directory / "progress.jsonl").unlink()
    write(directory, {**RATE, "data_wait_share": 0.5, "cpus": 4})
    reader = ProgressReader()
    reader.look_at({"7": ProgressFiles(str(directory), ME, 0)})
    reader.read()
    read_to = reader.reports()["7"].offset_bytes
    write(directory, {**RATE, "data_wait_share": 0.0, "cpus": 8})
    reader.look_at({"7": ProgressFiles(str(directory), ME, read_to)})
    reader.read()
    assert reader.reports()["7"].offset_bytes > read_to
    assert reader.reports()["7"].data_wait == WaitProfile((DataWait(0.5, 4), DataWait(0.0, 8)))
    assert read_report(ProgressFiles(str(directory), ME, 0)).data_wait == reader.reports()["7"].data_wait, (
        "after a restart"
    )
