"""Getting at a log's bytes: plain or gzipped files and standard input."""

from __future__ import annotations

import codecs
import sys
import zlib
from pathlib import Path

from freetrain.errors import InputError

_GZIP = b"\x1f\x8b"
_GZIP_WBITS = 31
_UTF16_HEAD_BYTES = 64
_OTHER_PACKERS = {
    b"\xfd7zXZ": "xz",
    b"BZh": "bzip2",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"PK\x03\x04": "zip",
}


def display_name(path: Path) -> str:
    """The file's name in messages."""
    return "standard input" if str(path) == "-" else str(path)


def read_source(path: Path) -> bytes:
    """The text of a log as UTF-8: unpacked, without byte-order mark, lines ending in a newline character alone.

    Raises:
        InputError: if the file cannot be read, or is cut off or damaged within.
    """
    name = display_name(path)
    data = _read_bytes(path, name)
    if data.startswith(_GZIP):
        data = _unpack(data, name)
    for magic, packer in _OTHER_PACKERS.items():
        if data.startswith(magic):
            raise InputError(
                f"{name} is packed with {packer}, which freetrain does not read.",
                "Unpack it first, or pipe it in: give - as the file for standard input.",
            )
    data = _as_utf8(data).removeprefix(codecs.BOM_UTF8)
    return data.replace(b"\r\n", b"\n") if b"\r\n" in data else data


def _as_utf8(data: bytes) -> bytes:
    """Windows' shells write UTF-16, with a byte-order mark or without: every second byte of ASCII text is 0."""
    head = data[:_UTF16_HEAD_BYTES]
    zeros = [head[odd::2].count(0) for odd in (0, 1)]
    encoding = None
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        encoding = "utf-16"
    elif len(head) >= 8 and zeros[0] == 0 and zeros[1] == len(head) // 2:
        encoding = "utf-16-le"
    elif len(head) >= 8 and zeros[1] == 0 and zeros[0] == (len(head) + 1) // 2:
        encoding = "utf-16-be"
    return data if encoding is None else data.decode(encoding, errors="replace").encode(errors="replace")


def _read_bytes(path: Path, name: str) -> bytes:
    if str(path) == "-":
        return sys.stdin.buffer.read()
    try:
        return path.read_bytes()
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


def _unpack(data: bytes, name: str) -> bytes:
    """Unpack gzip by hand: the module gzip tells neither how far it came nor truncation from damage."""
    parts: list[bytes] = []
    rest = data
    while rest:
        member = zlib.decompressobj(_GZIP_WBITS)
        try:
            parts.append(member.decompress(rest))
        except zlib.error:
            raise _broken(
                name, parts, "damaged", "Fetch the file again: its checksum or content is wrong."
            ) from None
        if not member.eof:
            raise _broken(name, parts, "cut off", "Copy the whole file again: its end is missing.")
        # tar and tape blocks pad with zeros
        rest = member.unused_data.lstrip(b"\0")
    return b"".join(parts)


def _broken(name: str, parts: list[bytes], how: str, hint: str) -> InputError:
    rows = sum(part.count(b"\n") for part in parts)
    return InputError(f"{name} is a gzip file that is {how} after {rows:,} lines; nothing was read from it.", hint)
