"""A log's file: its bytes, unpacked, and what kind of log they are, or that they are none."""

from __future__ import annotations

import codecs
import re
import sys
import zlib
from collections.abc import Generator, Iterator
from enum import StrEnum
from itertools import chain
from pathlib import Path

from freetrain.errors import InputError
from freetrain.replay.logs.sacct_text import MADE_WITH, find_headers

_GZIP = b"\x1f\x8b"
# zlib's code for a gzip header (16) and the largest window (15).
_GZIP_WBITS = 31
_UTF16_HEAD_BYTES = 64
_CHUNK_BYTES = 1 << 20
_PIECE_BYTES = 12 << 20
"""Bytes understood at a time: as columns of text they take some ten times as much, and each time some
15 ms, however few they are."""
_MAX_LINE_BYTES = 1 << 25
"""Most bytes of a line: no row is as long, but a whole JSON document may stand in one line."""
_OTHER_PACKERS = {b"\xfd7zXZ": "xz", b"BZh": "bzip2", b"\x28\xb5\x2f\xfd": "zstd", b"PK\x03\x04": "zip"}
_HEAD_BYTES = 1 << 16
_SWF_FIELDS = 18
_EXPECTED = (
    "Give the output of `sacct -P` or `sacct --json`, an SWF log, or node events (CSV with the header "
    "t,node,idle)."
)
_TABLE_ROW = re.compile(r"\d+([_+.]\S*)?( +\S+){3,}")
_ONE_MOMENT = re.compile(r"JOBID +PARTITION|PARTITION +AVAIL|NODELIST +NODES|(JobId|NodeName|PartitionName)=")
"""Beginnings of what squeue, sinfo and scontrol print."""


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
        # To look whether it is UTF-8 takes a third of the time of making it UTF-8 again.
        try:
            piece.decode()
        except UnicodeDecodeError:
            piece = piece.decode(errors="replace").encode()
        # To look for one byte takes a twentieth of the time of two.
        yield piece.replace(b"\r\n", b"\n") if b"\r" in piece else piece


def _in_whole_lines(chunks: Iterator[bytes]) -> Iterator[bytes]:
    waiting: list[bytes] = []
    waiting_bytes, enough_bytes = 0, _CHUNK_BYTES
    for chunk in chunks:
        waiting.append(chunk)
        waiting_bytes += len(chunk)
        end = chunk.rfind(b"\n") + 1 or (len(chunk) if waiting_bytes >= _MAX_LINE_BYTES else 0)
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
    """Encoding of UTF-16 from Windows' shells, marked or not: every second byte of ASCII is 0; None: other."""
    zeros = [head[odd::2].count(0) for odd in (0, 1)]
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    if len(head) >= 8 and zeros[0] == 0 and zeros[1] == len(head) // 2:
        return "utf-16-le"
    if len(head) >= 8 and zeros[1] == 0 and zeros[0] == (len(head) + 1) // 2:
        return "utf-16-be"
    return None


def _chunks(path: Path, name: str) -> Iterator[bytes]:
    if is_stdin(path):
        yield from iter(lambda: sys.stdin.buffer.read(_CHUNK_BYTES), b"")
        return
    try:
        with path.open("rb") as file:
            yield from iter(lambda: file.read(_CHUNK_BYTES), b"")
    except FileNotFoundError:
        raise InputError(f"There is no file {name}.", "Check the path of the log.") from None
    except IsADirectoryError:
        hint = "Name the files in it; several can be given."
        raise InputError(f"{name} is a directory, not a log.", hint) from None
    except PermissionError:
        hint = "Ask its owner to let you read it."
        raise InputError(f"{name} cannot be read: permission denied.", hint) from None
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


class LogFormat(StrEnum):
    """The kinds of log that can be read, named as in reports."""

    SACCT = "sacct"
    SWF = "SWF"
    NODE_EVENTS = "node events"


def detect_format(data: bytes, name: str, columns_given: bool, delimiter: str | None = None) -> LogFormat:
    """Kind of log that the text is, in columns that the user may have named.

    Raises:
        InputError: if it is none; the sentence says what was found.
    """
    if b"\0" in data[:_HEAD_BYTES]:
        raise InputError(f"{name} is a binary file, not a log.", _EXPECTED)
    lines = [line.strip() for line in data[:_HEAD_BYTES].decode(errors="replace").split("\n")]
    lines = [line for line in lines if line]
    if not lines:
        raise InputError(f"{name} is empty.", _EXPECTED)
    if _is_swf(lines):
        return LogFormat.SWF
    if any(is_event_header(line) for line in lines):
        return LogFormat.NODE_EVENTS
    has_header = next(find_headers(data, delimiter), None) is not None
    if has_header or (columns_given and (delimiter or "|") in lines[0]):
        return LogFormat.SACCT
    if delimiter is not None and (own := next(find_headers(data), None)) is not None:
        raise InputError(
            f"{name} separates its columns with {own.separator!r}, not with {delimiter!r}.",
            "Leave --delimiter out: where there is a header, it is not needed.",
        )
    raise _no_log(lines, name)


def is_event_header(line: str) -> bool:
    """True for the header of node events."""
    return {"t", "node", "idle"} <= {cell.strip().lower() for cell in line.split(",")}


def _is_swf(lines: list[str]) -> bool:
    first = next((line for line in lines if not line.startswith(";")), None)
    if first is None or lines[0].startswith(";"):
        return True
    cells = [cell.lstrip("-").replace(".", "", 1) for cell in first.split()]
    return len(cells) == _SWF_FIELDS and all(cell.isdigit() for cell in cells)


def _no_log(lines: list[str], name: str) -> InputError:
    first = lines[0]
    if first[0] == "<":
        return InputError(f"{name} is HTML or XML, not a log.", _EXPECTED)
    if _ONE_MOMENT.match(first):
        return InputError(
            f"{name} shows one moment, as squeue, sinfo and scontrol do; a replay needs what jobs did over days.",
            MADE_WITH,
        )
    if any(set(line) == {"-", " "} for line in lines[:50]) or _TABLE_ROW.fullmatch(first):
        return InputError(
            f"{name} looks like sacct's table for people, whose columns are cut off.",
            "Make it again with `sacct -P` (--parsable2).",
        )
    shown = repr(first if len(first) <= 60 else first[:59] + "…")
    if first.count("|") >= 2:
        return InputError(
            f"{name} has no header line that sacct would print; its first line is {shown}.",
            "If it was made with -n (--noheader), give the column names with --columns JobID,Start,End,…",
        )
    return InputError(f"{name} is no log that freetrain knows; its first line is {shown}.", _EXPECTED)
