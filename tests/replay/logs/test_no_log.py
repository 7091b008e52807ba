"""Files that are no log end with one clear sentence."""

from __future__ import annotations

import gzip
import io
import random
import sys
from pathlib import Path

import pytest

from freetrain.errors import ExitCode, InputError
from freetrain.replay.logs import ReadOptions, read_site_log
from tests.replay.logs.build import Write, read, row, sacct


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "is empty"),
        (b"\n \n\n", "is empty"),
        (b"\x7fELF\x02\x01\0\0\0", "binary"),
        (b'{"jobs": []}', "JSON"),
        (b"<html></html>", "HTML or XML"),
        (b"\xfd7zXZ\x00\x00", "packed with xz"),
        (b"JobID  State\n------ -----\n1  COMPLETED\n", "table for people"),
        (b"             JOBID PARTITION     NAME     USER ST\n 1 batch a b R\n", "no log that freetrain knows"),
        (b"v=0.1.0,JobID=1,State=TIMEOUT\n", "no log that freetrain knows"),
        (b"1|a|b|c|2024-06-03T00:00:00\n", "no header line"),
        (b"JobID|State|User\n1|COMPLETED|u\n", "lacks the column Start and the column End"),
        (b"JobID|Start|End\n1|2024-06-03|2024-06-04\n", "lacks the column NodeList"),
        (sacct().encode(), "no job in the log that ran"),
        (sacct(row(state="PENDING", start="Unknown", end="Unknown")).encode(), "1 ignored .never started"),
        (b"; Version: 2.2\n", "no job in the log that ran"),
        (b"t,node,idle\n", "no event"),
    ],
)
def test_a_file_that_is_no_log_is_named_for_what_it_is(write: Write, content: bytes, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence) as caught:
        read(write(content))
    assert caught.value.exit_code == ExitCode.USAGE
    assert caught.value.what.endswith(".")


def test_random_bytes_are_no_log(write: Write) -> None:
    with pytest.raises(InputError):
        read(write(random.Random(1).randbytes(5000)))


def test_a_missing_file_and_a_directory_are_told_apart(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no file"):
        read(tmp_path / "none")
    with pytest.raises(InputError, match="is a directory"):
        read(tmp_path)


def test_a_cut_off_gzip_says_how_far_it_goes(write: Write) -> None:
    rows = [row(str(number), name=f"{number * 7919 % 10007}") for number in range(2000)]
    packed = gzip.compress(sacct(*rows).encode())
    with pytest.raises(InputError, match=r"cut off after [\d,]+ lines"):
        read(write(packed[: len(packed) // 2]))


def test_a_damaged_gzip_is_told_from_a_cut_off_one(write: Write) -> None:
    packed = bytearray(gzip.compress(sacct(*[row()] * 50).encode()))
    packed[-6] ^= 0xFF
    with pytest.raises(InputError, match="damaged"):
        read(write(bytes(packed)))


def test_gzip_is_known_by_its_content_and_may_have_several_members(write: Write) -> None:
    parts = [sacct(row("1")), row("2", list="c2") + "\n"]
    log = read(write(b"".join(gzip.compress(part.encode()) for part in parts)))
    assert log.holes.node_names == ("c1", "c2")


def test_a_dash_is_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(sacct(row(), "2|x").encode())))
    log = read(Path("-"))
    assert log.rows.first_rejects[0].file == "standard input"


def test_files_of_two_formats_are_not_mixed(write: Write) -> None:
    paths = [write(sacct(row())), write("t,node,idle\n0,a,1\n")]
    with pytest.raises(InputError, match="one in node events"):
        read_site_log(paths, ReadOptions())


def test_options_that_contradict_each_other_are_refused(write: Write) -> None:
    path = write(sacct(row()))
    for wrong in ({"nodes": 4, "machine": path}, {"nodes": 0}, {"from_s": 5.0, "until_s": 5.0}, {"timezone": "X"}):
        with pytest.raises(InputError):
            read(path, **wrong)
