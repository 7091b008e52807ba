from __future__ import annotations

import io
import json
import math
import stat
from dataclasses import asdict
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from freetrain.elastic.on_disk import progress
from freetrain.elastic.on_disk.directory import TrainerDirectory
from freetrain.elastic.on_disk.progress import (
    ProgressWriter,
    Rate,
    Rejected,
    Rescale,
    parse_line,
    read_part,
    read_progress,
)
from tests.hostile import PROGRESS_LINES, RATE

RESCALE = {
    "event": "rescale",
    "time_s": 1.0,
    "generation": 3,
    "world": 2,
    "nodes": 1,
    "cause": "leave",
    "step": 7,
    "pause_s": 0.04,
}
FACTS = {"generation": 2, "world": 4, "nodes": 2, "step": 7, "epoch": 0, "samples_done": 70}


def why(text: str | bytes) -> str:
    """Why the line is not believed."""
    with pytest.raises(ValueError, match=r".") as caught:
        parse_line(text if isinstance(text, bytes) else text.encode())
    return str(caught.value)


def with_value(name: str, text: str) -> str:
    """A line that is right but for the text of one value."""
    known = RATE if name in RATE else RESCALE
    return "{" + ", ".join(f'"{key}": {text if key == name else json.dumps(known[key])}' for key in known) + "}"


def test_the_runtimes_own_lines_are_believed() -> None:
    rate, rescale = parse_line(json.dumps(RATE).encode()), parse_line(json.dumps(RESCALE).encode())
    assert isinstance(rate, Rate)
    assert isinstance(rescale, Rescale)
    assert (rate.nodes, rate.samples_per_s, rescale.cause) == (2, 64.0, "leave")


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("samples_per_s", "Infinity", "samples_per_s is not finite"),
        ("samples_per_s", "NaN", "samples_per_s is not finite"),
        ("samples_per_s", "1e999", "samples_per_s is not finite"),
        ("samples_per_s", "9" * 400, "samples_per_s is not between 1e-09 and 1,000,000,000,000"),
        ("samples_per_s", "1e-320", "samples_per_s is not between 1e-09 and 1,000,000,000,000"),
        ("samples_per_s", "1e308", "samples_per_s is not between 1e-09 and 1,000,000,000,000"),
        ("samples_per_s", "-1.0", "samples_per_s is not between 1e-09 and 1,000,000,000,000"),
        ("samples_per_s", "true", "samples_per_s is not a number"),
        ("samples_per_s", "null", "samples_per_s is not a number"),
        ("nodes", "9" * 400, "nodes is not between 1 and 100,000"),
        ("nodes", "0", "nodes is not between 1 and 100,000"),
        ("nodes", "2.0", "nodes is not a whole number"),
        ("nodes", "true", "nodes is not a whole number"),
        ("samples_done", "9" * 400, "samples_done is not between 0 and 1e+15"),
        ("samples_done", "-1", "samples_done is not between 0 and 1e+15"),
        ("samples_done", "9" * 5000, "it is not JSON"),
        ("cause", '"\\u001b[31m"', "cause is not a short word"),
        ("cause", '"' + "x" * 41 + '"', "cause is not a short word"),
        ("event", '"new"', "its event is none of rate, rescale and loss"),
        ("event", "[]", "its event is none of rate, rescale and loss"),
    ],
)
def test_a_value_is_of_its_type_finite_and_plausible_or_named(name: str, text: str, said: str) -> None:
    assert why(with_value(name, text)) == said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"[" * 10_000, "it is nested too deep"),
        (b'{"a":' * 1_000, "it is nested too deep"),
        (b"[" * 100_000, "it is longer than 16384 bytes"),
        (json.dumps({**RATE, "note": "x" * 20_000}).encode(), "it is longer than 16384 bytes"),
        (b"\xff\xfe", "it is not JSON"),
        (json.dumps(RATE).encode("utf-16"), "it is not JSON"),
        (b'{"event": "rate\x00"}', "it is not JSON"),
        (b"", "it is not JSON"),
        (b"[1, 2]", "it is not a JSON object"),
        (b"7", "it is not a JSON object"),
        (b'{"event": "rate", "event": "rate"}', "one of its keys is given twice"),
        (b'{"event": "rate"}', "time_s is missing"),
    ],
)
def test_a_line_that_is_not_one_says_why(text: bytes, said: str) -> None:
    assert why(text) == said


def test_the_parts_of_a_pause_need_not_be_known() -> None:
    assert isinstance(line := parse_line(json.dumps({**RESCALE, "start_s": 3.5}).encode()), Rescale)
    assert (line.save_s, line.start_s) == (None, 3.5)
    assert why(json.dumps({**RESCALE, "save_s": None})) == "save_s is not a number"
    assert why(json.dumps({**RESCALE, "save_s": -1})) == "save_s is not between 0 and 1,000,000,000"


def test_nobody_has_more_nodes_than_there_are() -> None:
    line = json.dumps({**RATE, "nodes": 9}).encode()
    assert isinstance(parse_line(line, max_nodes=9), Rate)
    with pytest.raises(ValueError, match=r"^nodes is more than the 8 that there are$"):
        parse_line(line, max_nodes=8)


@settings(max_examples=150, deadline=None)
@given(PROGRESS_LINES)
def test_whatever_stands_in_a_line_it_is_bounded_or_refused_in_a_short_sentence(text: bytes) -> None:
    reason = ""
    try:
        line = parse_line(text, max_nodes=64)
    except ValueError as error:
        reason = str(error) or "none"
    if reason:
        assert 0 < len(reason) < 100
        assert reason.isprintable()
        return
    numbers = [value for value in asdict(line).values() if not isinstance(value, str | None)]
    assert all(type(value) in (int, float) and math.isfinite(value) and 0 <= value <= 1e15 for value in numbers)
    assert 1 <= line.nodes <= 64


@given(st.integers(1, 100_000), st.floats(1e-9, 1e12), st.floats(1e-9, 1e9))
def test_any_rate_within_the_bounds_is_believed(nodes: int, samples_per_s: float, elapsed_s: float) -> None:
    given = {**RATE, "nodes": nodes, "samples_per_s": samples_per_s, "elapsed_s": elapsed_s}
    assert isinstance(parse_line(json.dumps(given).encode()), Rate)


def test_what_is_written_is_read_and_later_lines_only_once(tmp_path: Path) -> None:
    path = tmp_path / "progress.jsonl"
    progress = ProgressWriter(path)
    progress.add(10, 0.001, 0.002)
    progress.write_rate(**FACTS)
    first = read_progress(path)
    assert [(rate.nodes, rate.samples, rate.samples_done) for rate in first.rates] == [(2, 10, 70)]
    progress.write_event("rescale", generation=3, world=2, nodes=1, cause="leave", step=7, pause_s=0.04)
    later = read_progress(path, first.offset_bytes)
    assert later.rates == ()
    assert [(rescale.cause, rescale.pause_s) for rescale in later.rescales] == [("leave", 0.04)]


def test_a_line_that_is_being_written_is_left_for_the_next_time(tmp_path: Path) -> None:
    path = tmp_path / "progress.jsonl"
    ProgressWriter(path).write_event(
        "rescale", generation=3, world=2, nodes=1, cause="leave", step=7, pause_s=0.04
    )
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


def in_parts(content: bytes, max_bytes: int) -> tuple[int, int]:
    """(good lines, rejected lines) of a file that is read part by part."""
    offset, good, rejected = 0, 0, 0
    for _ in range(len(content) + 1):
        part = read_part(io.BytesIO(content), offset, max_bytes)
        good, rejected = good + len(part.rates), rejected + part.rejected
        if part.offset_bytes == offset:
            return good, rejected
        offset = part.offset_bytes
    raise AssertionError("it is read for ever")


@pytest.mark.parametrize("long", [17_000, 20_000, 40_000, 100_000])
@pytest.mark.parametrize("max_bytes", [17_000, 20_000, 64_000])
def test_a_line_that_is_too_long_is_skipped_and_counted_once_however_it_is_cut(long: int, max_bytes: int) -> None:
    line = json.dumps({**RATE}).encode() + b"\n"
    content = 3 * line + b"[" * long + b"\n" + 2 * line
    assert in_parts(content, max_bytes) == (5, 1)


def test_a_line_that_is_too_long_and_still_being_written_is_not_waited_for() -> None:
    line = json.dumps({**RATE}).encode() + b"\n"
    first = read_part(io.BytesIO(line + b"x" * 20_000), 0, 64_000)
    assert (first.offset_bytes, first.rejected) == (len(line) + 20_000, 1)
    assert first.first_rejected == Rejected(len(line), "it is longer than 16384 bytes")
    later = read_part(io.BytesIO(line + b"x" * 20_100 + b"\n" + line), first.offset_bytes, 64_000)
    assert (len(later.rates), later.rejected) == (1, 0)


def test_of_many_short_lines_some_are_read_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "MAX_LINES", 10)
    part = read_part(io.BytesIO(b"\n" * 60_000), 0, 64_000)
    assert (part.offset_bytes, part.rejected) == (10, 10)
    assert in_parts(b"x\n" * 95, 64_000) == (0, 95)


def test_others_may_read_the_progress_and_nothing_else(tmp_path: Path) -> None:
    directory = TrainerDirectory.open(tmp_path / "trainer")
    ProgressWriter(directory.progress_path).write_event("rescale")
    assert stat.S_IMODE(directory.root.stat().st_mode) == 0o711
    assert stat.S_IMODE(directory.progress_path.stat().st_mode) == 0o644
    private = [path for path in directory.root.iterdir() if path != directory.progress_path]
    assert private
    assert all(stat.S_IMODE(path.stat().st_mode) & 0o077 == 0 for path in private)
