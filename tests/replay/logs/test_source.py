"""The text of a log, piece by piece."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freetrain.errors import InputError
from freetrain.replay.logs import source
from freetrain.replay.logs.source import read_pieces, read_source

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
