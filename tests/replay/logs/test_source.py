"""The text of a log, piece by piece, and what kind of log it is, or that it is none."""

from __future__ import annotations

import gzip
import io
import random
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freetrain.errors import ExitCode, InputError
from freetrain.replay.logs import ReadOptions, read_site_log, source
from freetrain.replay.logs.source import read_pieces, read_source
from tests.replay.logs.build import Write, read, row, sacct

TEXT = "JobID|Start\n" + "".join(f"{number}|Ä{number}\n" for number in range(50))


@pytest.fixture(params=[1, 7, 100])
def _small_pieces(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "_PIECE_BYTES", request.param)


def written(folder: Path, data: bytes) -> Path:
    path = folder / "log"
    path.write_bytes(data)
    return path


@given(st.text("ab\n", max_size=60), st.integers(1, 9), st.integers(1, 20))
def test_pieces_are_whole_lines_and_together_the_text(text: str, chunk: int, piece: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(source, "_PIECE_BYTES", piece)
        data = text.encode()
        chunks = (data[begin : begin + chunk] for begin in range(0, len(data), chunk))
        pieces = list(source._in_whole_lines(chunks))
    assert b"".join(pieces) == data
    assert all(one.endswith(b"\n") for one in pieces[:-1])
    # The first is as large as a chunk of a file; of the others none waits for more than it needs.
    assert all(len(one) < piece + chunk + 60 for one in pieces[1:])


@pytest.mark.usefixtures("_small_pieces")
@pytest.mark.parametrize(
    "data",
    [
        TEXT.encode(),
        TEXT.encode("utf-8-sig"),
        TEXT.replace("\n", "\r\n").encode(),
        TEXT.encode("utf-16"),
        TEXT.encode("utf-16-be"),
        gzip.compress(TEXT.encode()),
        gzip.compress(TEXT[:100].encode()) + gzip.compress(TEXT[100:].encode()) + b"\0" * 30,
    ],
)
def test_the_text_is_the_same_in_whatever_chunks_a_file_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, data: bytes
) -> None:
    monkeypatch.setattr(source, "_CHUNK_BYTES", 65)
    path = written(tmp_path, data)
    assert read_source(path).decode() == TEXT
    pieces = list(read_pieces(path))
    assert len(pieces) > 2
    assert all(piece.endswith(b"\n") for piece in pieces)


def test_a_gzip_that_breaks_off_says_so_after_its_sound_pieces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source, "_CHUNK_BYTES", 65)
    path = written(tmp_path, gzip.compress(TEXT.encode())[:-4])
    with pytest.raises(InputError, match="cut off after 51 lines"):
        list(read_pieces(path))


def test_nothing_has_no_pieces(tmp_path: Path) -> None:
    assert b"".join(read_pieces(written(tmp_path, b""))) == b""


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "is empty"),
        (b"\n \n\n", "is empty"),
        (b"\x7fELF\x02\x01\0\0\0", "binary"),
        (b'{"jobs": []}', "JSON"),
        (b"1234         wrap      batch    user+          8  COMPLETED      0:0\n", "table for people"),
        (b"sacct: a message\nJobID  State\n------ -----\n1  COMPLETED\n", "table for people"),
        (b"<html></html>", "HTML or XML"),
        (b"\xfd7zXZ\x00\x00", "packed with xz"),
        (b"JobID  State\n------ -----\n1  COMPLETED\n", "table for people"),
        (b"             JOBID PARTITION     NAME     USER ST\n 1 batch a b R\n", "shows one moment, as squeue"),
        (b"PARTITION AVAIL  TIMELIMIT  NODES  STATE NODELIST\ndebug* up infinite 2 idle n[1-2]\n", "one moment"),
        (b"JobId=123 JobName=test\n   UserId=alice(1000)\n", "shows one moment"),
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


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
def test_windows_writes_utf_16(write: Write, encoding: str) -> None:
    log = read(write(sacct(row("1", name="café"), row("2")).encode(encoding)))
    assert log.rows.used == 2


def test_many_bad_rows_are_a_warning_and_mostly_bad_ones_an_error(write: Write) -> None:
    good = [row(str(number), list=f"c{number}") for number in range(100)]

    def bad(count: int) -> list[str]:
        return [row(str(number), end="soon") for number in range(count)]

    assert not any("could not be used" in warning for warning in read(write(sacct(*good, *bad(5)))).warnings)
    warning = read(write(sacct(*good, *bad(6)))).warnings[0]
    assert "6 rows could not be used, 6 % of those that count" in warning
    assert "line 102: End 'soon' is not a time" in warning
    with pytest.raises(InputError, match="101 rows cannot be used, 50 % of those that count"):
        read(write(sacct(*good, *bad(101))))


def test_steps_and_jobs_that_never_ran_are_not_counted_in_the_share_of_bad_rows(write: Write) -> None:
    steps = [row("1.batch") for _ in range(100)]
    log = read(write(sacct(row("1"), row("2"), *steps, row("3", end="soon"))))
    assert "33 % of those that count" in log.warnings[0]


@pytest.mark.parametrize(
    ("time", "hint"), [("Ystday 09:00", "SLURM_TIME_FORMAT=standard"), ("06/03/24 09:00:00", "day")]
)
def test_times_of_a_form_that_cannot_be_read_have_a_hint_that_fits(write: Write, time: str, hint: str) -> None:
    with pytest.raises(InputError, match="is not a time") as caught:
        read(write(sacct(row("1", submit=time, start=time, end=time))))
    assert hint in caught.value.hint


def test_a_machine_of_more_than_a_million_nodes_is_refused(write: Write) -> None:
    with pytest.raises(InputError, match="No machine has"):
        read(write(sacct(row())), nodes=10**9)
    pools = "".join(f'[[pools]]\nname = "p{n}"\nnodes = 900000\n' for n in range(2))
    with pytest.raises(InputError, match="more than 1,000,000 nodes"):
        read(write(sacct(row())), machine=write(f'name = "m"\n{pools}'))


@pytest.mark.parametrize(
    ("text", "option"),
    [
        ("t,node,idle\n0,a,1\n", {"node_states": Path("x")}),
        ("t,node,idle\n0,a,1\n", {"reservations": Path("x")}),
        ("; MaxNodes: 1\n", {"cluster": "x"}),
        ("; MaxNodes: 1\n", {"ignore_partitions": ("x",)}),
        ("; MaxNodes: 1\n", {"ignore_accounts": ("x",)}),
    ],
)
def test_options_that_do_nothing_to_such_a_log_are_refused(
    write: Write, text: str, option: dict[str, object]
) -> None:
    with pytest.raises(InputError, match="has no meaning for a log in the format"):
        read(write(text), **option)
