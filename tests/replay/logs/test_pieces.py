"""Logs that are read in many pieces say the same as when they are read as a whole."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest

from freetrain.errors import InputError
from freetrain.replay.logs import ReadOptions, SiteLog, read_site_log, reader, source, traces
from freetrain.replay.logs.other_logs import read_node_events, read_swf
from freetrain.replay.logs.parsed import RowTally
from freetrain.replay.logs.sacct_jobs import read_sacct
from freetrain.replay.logs.sacct_text import find_headers
from freetrain.replay.logs.source import read_pieces, read_source
from freetrain.replay.logs.traces import NO_TRACE, rows_of_json
from tests.replay.logs.build import HEADER, Write, read, row, sacct
from tests.replay.logs.test_odd_logs import EXPECTED, FOLDER, options_of

BROKEN = sacct(
    row("1"),
    row("2", name="a|b", list="c[1-3]"),
    row("3", name="two\nlines", start="03", end="04"),
    row("4", name="many\n\n\n\nlines|and pipes", start="05", end="06"),
    "nothing of this\nis a row",
    *(row(f"5_{number}", start="07", end="08", list=f"e{number}") for number in range(9)),
    row("6", name="last\nof all", start="09", end="10"),
)
LARGE_ROWS = 2_400
LARGE_BYTES = 2_400_000
JOINED = (
    BROKEN
    + sacct(row("7", list="d1"), row("8", name="c\nd"))
    + sacct(row("9"), header=HEADER.replace("JobName", "Account"))
)


def line_by_line(path: Path) -> Iterator[bytes]:
    """The text up to its first header, or its first two lines, and then each line as a piece."""
    data = read_source(path)
    header = next(find_headers(data), None)
    lines = data.split(b"\n")
    first = data.count(b"\n", 0, header.begin) + 1 if header else 2
    yield b"".join(line + b"\n" for line in lines[:first])
    for number, line in enumerate(lines[first:], first):
        yield line + b"\n" * (number < len(lines) - 1)


def outcome(path: Path, options: ReadOptions) -> SiteLog | str:
    try:
        return read_site_log([path], options)
    except InputError as error:
        return error.what


def assert_same(one: SiteLog | str, other: SiteLog | str) -> None:
    if isinstance(one, str) or isinstance(other, str):
        assert one == other
        return
    assert (one.rows, one.notes, one.warnings) == (other.rows, other.notes, other.warnings)
    assert one.holes.node_names == other.holes.node_names
    for name in ("node", "start_s", "end_s"):
        assert getattr(one.holes, name).tolist() == getattr(other.holes, name).tolist()


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_an_odd_log_says_the_same_line_by_line(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    options = options_of(EXPECTED[name])
    whole = outcome(FOLDER / name, options)
    monkeypatch.setattr(reader, "read_pieces", line_by_line)
    assert_same(outcome(FOLDER / name, options), whole)


@pytest.mark.parametrize("text", [BROKEN, JOINED, BROKEN.replace("|", "^|^"), BROKEN + "\n\n"])
def test_rows_that_go_on_in_the_next_piece_are_mended(
    write: Write, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    path = write(text)
    whole = read(path)
    assert whole.rows.rejected > 0
    monkeypatch.setattr(reader, "read_pieces", line_by_line)
    assert_same(read(path), whole)


def test_a_rejected_row_is_written_down_whatever_piece_it_is_in(
    write: Write, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = write(BROKEN)
    read(path, rejects=tmp_path / "whole")
    monkeypatch.setattr(reader, "read_pieces", line_by_line)
    read(path, rejects=tmp_path / "line by line")
    assert "nothing of this" in (tmp_path / "whole").read_text()
    assert (tmp_path / "line by line").read_text() == (tmp_path / "whole").read_text()


def test_a_file_is_not_kept_open_before_its_turn(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = [write(sacct(row(str(number)), header=HEADER)) for number in range(3)]
    opened = reader._open(paths[0], ReadOptions())
    paths[0].write_text(sacct(row("1", list="changed")))
    assert b"changed" in b"".join(opened.pieces)


@pytest.mark.parametrize("kind", ["SWF", "JSON", "JSON in one line", "node events"])
def test_the_text_of_a_large_log_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    for name, size in (("_CHUNK_BYTES", 1 << 16), ("_PIECE_BYTES", 1 << 16), ("_MAX_LINE_BYTES", 1 << 17)):
        monkeypatch.setattr(source, name, size)
    monkeypatch.setattr(traces, "_LINES_AT_ONCE", 100)
    path = tmp_path / "log"
    path.write_text("".join(large_log(kind)))
    assert path.stat().st_size > LARGE_BYTES
    read_through(path, kind)  # modules that are imported on the way are not what is looked for
    tracemalloc.start()
    try:
        tally = read_through(path, kind)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (tally.read, tally.bad) == (LARGE_ROWS, [])
    assert peak_bytes < LARGE_BYTES / 2, "polars' own memory is not counted here"


def read_through(path: Path, kind: str) -> RowTally:
    tally = RowTally(("log",))
    if kind == "SWF":
        read_swf(read_pieces(path), 0, tally)
    elif kind == "node events":
        read_node_events(read_pieces(path), 0, "UTC", tally)
    else:
        read_sacct(rows_of_json(read_pieces(path), NO_TRACE, "log"), 0, ReadOptions(), tally)
    return tally


def large_log(kind: str) -> Iterator[str]:
    if kind == "SWF":
        yield "; UnixStartTime: 1700000000\n"
        for number in range(LARGE_ROWS):
            yield f"{number}{' ' * 1000}{number} 0 60 8 -1 -1 8 7200 -1 1 1 1 -1 1 1 -1 -1\n"
    elif kind == "node events":
        yield "t,node,idle,comment\n"
        for number in range(LARGE_ROWS):
            yield f"{1700000000 + number},{number % 7},{number % 2},{'-' * 1000}\n"
    else:
        between = "\n" if kind == "JSON" else ""
        yield '{"jobs": ['
        for number in range(LARGE_ROWS):
            record = {"job_id": number, "time": {"start": 1700000000, "end": 1700000060}, "nodes": "c1"}
            yield f"{',' if number else ''}{between}{json.dumps(record | {'comment': '-' * 1000})}"
        yield "]}"
