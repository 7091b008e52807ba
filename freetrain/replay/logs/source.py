"""Getting at a log's bytes: plain or gzipped files and standard input."""

from __future__ import annotations

import codecs
import sys
import zlib
from collections.abc import Generator, Iterator
from itertools import chain
from pathlib import Path

from freetrain.errors import InputError

_GZIP = b"\x1f\x8b"
_GZIP_WBITS = 31
_UTF16_HEAD_BYTES = 64
_CHUNK_BYTES = 1 << 20
_PIECE_BYTES = 12 << 20
"""What is understood at a time: as columns of text it takes some ten times as much, and each time some
15 ms, however little it is."""
_MOST_LINE_BYTES = 1 << 25
"""No row is as long, but a whole JSON document may stand in one line."""
_OTHER_PACKERS = {
    b"\xfd7zXZ": "xz",
    b"BZh": "bzip2",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"PK\x03\x04": "zip",
}


def display_name(path: Path) -> str:
    """The file's name in messages."""
    return "standard input" if is_stdin(path) else str(path)


def is_stdin(path: Path) -> bool:
    """Whether it stands for standard input, which can be read once."""
    return str(path) == "-"


def read_source(path: Path) -> bytes:
    """The whole text of a log, as ``read_pieces`` gives it."""
    return b"".join(read_pieces(path))


def read_pieces(path: Path) -> Generator[bytes, None, None]:
    """The text of a log as UTF-8, piece by piece, so that a large one need not be there as a whole.

    It is unpacked, without byte-order mark, and its lines end in a newline character alone. Each piece but the
    last ends at the end of a line, unless that is longer than any row could be. The first is small, to tell what
    kind of log it is.

    Raises:
        InputError: if the file cannot be read, or is cut off or damaged within.
    """
    name = display_name(path)
    text = _as_utf8(_unpacked(_chunks(path, name), name))
    for piece in _in_whole_lines(text):
        # To look for one byte takes a twentieth of the time of two.
        yield piece.replace(b"\r\n", b"\n") if b"\r" in piece else piece


def _in_whole_lines(chunks: Iterator[bytes]) -> Iterator[bytes]:
    waiting: list[bytes] = []
    waiting_bytes, enough_bytes = 0, _CHUNK_BYTES
    for chunk in chunks:
        waiting.append(chunk)
        waiting_bytes += len(chunk)
        end = chunk.rfind(b"\n") + 1 or (len(chunk) if waiting_bytes >= _MOST_LINE_BYTES else 0)
        if end and waiting_bytes >= enough_bytes:
            waiting[-1] = chunk[:end]
            yield b"".join(waiting)
            waiting, waiting_bytes, enough_bytes = [chunk[end:]], len(chunk) - end, _PIECE_BYTES
    if waiting_bytes:
        yield b"".join(waiting)


def _as_utf8(chunks: Iterator[bytes]) -> Iterator[bytes]:
    first = next(chunks, b"")
    encoding = _encoding(first[:_UTF16_HEAD_BYTES])
    if encoding is None:
        yield first.removeprefix(codecs.BOM_UTF8)
        yield from chunks
        return
    decoder = codecs.getincrementaldecoder(encoding)(errors="replace")
    for chunk in chain([first], chunks):
        yield decoder.decode(chunk).encode(errors="replace")
    yield decoder.decode(b"", final=True).encode(errors="replace")


def _encoding(head: bytes) -> str | None:
    """Windows' shells write UTF-16, with a byte-order mark or without: every second byte of ASCII text is 0."""
    zeros = [head[odd::2].count(0) for odd in (0, 1)]
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    if len(head) >= 8 and zeros[0] == 0 and zeros[1] == len(head) // 2:
        return "utf-16-le"
    if len(head) >= 8 and zeros[1] == 0 and zeros[0] == (len(head) + 1) // 2:
        return "utf-16-be"
    return None


def _chunks(path: Path, name: str) -> Iterator[bytes]:
    """The bytes of a file, or of standard input."""
    if is_stdin(path):
        yield from iter(lambda: sys.stdin.buffer.read(_CHUNK_BYTES), b"")
        return
    try:
        with path.open("rb") as file:
            yield from iter(lambda: file.read(_CHUNK_BYTES), b"")
    except FileNotFoundError:
        raise InputError(f"There is no file {name}.", "Check the path of the log.") from None
    except IsADirectoryError:
        raise InputError(
            f"{name} is a directory, not a log.", "Name the files in it; several can be given."
        ) from None
    except PermissionError:
        raise InputError(
            f"{name} cannot be read: permission denied.", "Ask its owner to let you read it."
        ) from None
    except OSError as error:
        raise InputError(f"{name} cannot be read: {error.strerror}.") from None


def _unpacked(chunks: Iterator[bytes], name: str) -> Iterator[bytes]:
    first = next(chunks, b"")
    if first.startswith(_GZIP):
        chunks = _gunzipped(chain([first], chunks), name)
        first = next(chunks, b"")
    for magic, packer in _OTHER_PACKERS.items():
        if first.startswith(magic):
            raise InputError(
                f"{name} is packed with {packer}, which freetrain does not read.",
                "Unpack it first, or pipe it in: give - as the file for standard input.",
            )
    yield first
    yield from chunks


def _gunzipped(chunks: Iterator[bytes], name: str) -> Iterator[bytes]:
    """Unpack gzip by hand: the module gzip tells neither how far it came nor truncation from damage."""
    lines, member = 0, None
    for rest in chunks:
        while rest:
            if member is None:
                # tar and tape blocks pad with zeros
                rest = rest.lstrip(b"\0")
                if not rest:
                    break
                member = zlib.decompressobj(_GZIP_WBITS)
            try:
                text = member.decompress(rest, _CHUNK_BYTES)
            except zlib.error:
                hint = "Fetch the file again: its checksum or content is wrong."
                raise _broken(name, lines, "damaged", hint) from None
            if text:
                lines += text.count(b"\n")
                yield text
            rest = member.unused_data if member.eof else member.unconsumed_tail
            member = None if member.eof else member
    if member is not None:
        raise _broken(name, lines, "cut off", "Copy the whole file again: its end is missing.")


def _broken(name: str, lines: int, how: str, hint: str) -> InputError:
    return InputError(
        f"{name} is a gzip file that is {how} after {lines:,} lines; nothing was read from it.", hint
    )
