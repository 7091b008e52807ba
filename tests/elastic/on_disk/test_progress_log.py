from __future__ import annotations

import io
import json
import stat
from pathlib import Path

import pytest

from freetrain.elastic.on_disk import progress_log
from freetrain.elastic.on_disk.directory import TrainerDirectory
from freetrain.elastic.on_disk.progress import Progress
from freetrain.elastic.on_disk.progress_log import Rejected, read_part, read_progress
from tests.hostile import RATE

FACTS = {"generation": 2, "world": 4, "nodes": 2, "step": 7, "epoch": 0, "samples_done": 70}


def test_what_is_written_is_read_and_later_lines_only_once(tmp_path: Path) -> None:
    path = tmp_path / "progress.jsonl"
    progress = Progress(path)
    progress.add(10, 0.001, 0.002)
    progress.write_rate(**FACTS)
    first = read_progress(path)
    assert [(rate.nodes, rate.samples, rate.samples_done) for rate in first.rates] == [(2, 10, 70)]
    progress.write_event("rescale", generation=3, world=2, nodes=1, cause="leave", step=7, pause_s=0.04)
    later = read_progress(path, first.offset_bytes)
    assert later.rates == ()
    assert [(one.cause, one.pause_s) for one in later.rescales] == [("leave", 0.04)]


def test_a_line_that_is_being_written_is_left_for_the_next_time(tmp_path: Path) -> None:
    path = tmp_path / "progress.jsonl"
    Progress(path).write_event("rescale", generation=3, world=2, nodes=1, cause="leave", step=7, pause_s=0.04)
    whole = path.read_bytes()
    path.write_bytes(whole + whole[:20])
    log = read_progress(path)
    assert (len(log.rescales), log.offset_bytes, log.rejected) == (1, len(whole), 0)
    path.write_bytes(whole + whole)
    assert len(read_progress(path, log.offset_bytes).rescales) == 1


def test_nonsense_is_counted_and_not_believed(tmp_path: Path) -> None:
    path = tmp_path / "progress.jsonl"
    wrong_type = {**FACTS, "event": "rate", "samples_per_s": "many"}
    path.write_text("no json\n[1, 2]\n" + json.dumps(wrong_type) + "\n" + json.dumps({"event": "new"}) + "\n")
    assert read_progress(path).rejected == 4
    assert read_progress(path).rates == ()
    assert read_progress(path).first_rejected == Rejected(0, "it is not JSON")


def in_parts(content: bytes, most_bytes: int) -> tuple[int, int]:
    """(good lines, rejected lines) of a file that is read part by part."""
    offset, good, rejected = 0, 0, 0
    for _ in range(len(content) + 1):
        part = read_part(io.BytesIO(content), offset, most_bytes)
        good, rejected = good + len(part.rates), rejected + part.rejected
        if part.offset_bytes == offset:
            return good, rejected
        offset = part.offset_bytes
    raise AssertionError("it is read for ever")


@pytest.mark.parametrize("long", [17_000, 20_000, 40_000, 100_000])
@pytest.mark.parametrize("most_bytes", [17_000, 20_000, 64_000])
def test_a_line_that_is_too_long_is_skipped_and_counted_once_however_it_is_cut(long: int, most_bytes: int) -> None:
    line = json.dumps({**RATE}).encode() + b"\n"
    content = 3 * line + b"[" * long + b"\n" + 2 * line
    assert in_parts(content, most_bytes) == (5, 1)


def test_a_line_that_is_too_long_and_still_being_written_is_not_waited_for() -> None:
    line = json.dumps({**RATE}).encode() + b"\n"
    first = read_part(io.BytesIO(line + b"x" * 20_000), 0, 64_000)
    assert (first.offset_bytes, first.rejected) == (len(line) + 20_000, 1)
    assert first.first_rejected == Rejected(len(line), "it is longer than 16384 bytes")
    later = read_part(io.BytesIO(line + b"x" * 20_100 + b"\n" + line), first.offset_bytes, 64_000)
    assert (len(later.rates), later.rejected) == (1, 0)


def test_of_many_short_lines_some_are_read_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress_log, "MOST_LINES", 10)
    part = read_part(io.BytesIO(b"\n" * 60_000), 0, 64_000)
    assert (part.offset_bytes, part.rejected) == (10, 10)
    assert in_parts(b"x\n" * 95, 64_000) == (0, 95)


def test_others_may_read_the_progress_and_nothing_else(tmp_path: Path) -> None:
    directory = TrainerDirectory.open(tmp_path / "trainer")
    Progress(directory.progress_path).write_event("rescale")
    assert stat.S_IMODE(directory.root.stat().st_mode) == 0o711
    assert stat.S_IMODE(directory.progress_path.stat().st_mode) == 0o644
    private = [path for path in directory.root.iterdir() if path != directory.progress_path]
    assert private
    assert all(stat.S_IMODE(path.stat().st_mode) & 0o077 == 0 for path in private)
