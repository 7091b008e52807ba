"""How chance damages a text: cells, bytes, lines and pieces of it are replaced, removed or repeated."""

from __future__ import annotations

import random
import re

HOSTILE = [
    b"", b"0", b"-1", b"1e300", b"1e-300", b"nan", b"inf", b"NaN", b"NA", b"99999999999999999999", b"9" * 5000,
    b"4294967296", b"2147483648", b"99999999999", b"n[1-999999]", b"n[1-99999999]", b"n[000001-150000]", b"n[",
    b"n[9-1]", b"a[1-99]b[1-99]c[1-99]", b"[1-5]", b"n[1-2,2-3]", b"UNLIMITED", b"Unknown", b"None assigned",
    b"RUNNING", b"SUSPENDED", b"PENDING", b"2034-01-01T00:00:00", b"9999-12-31T23:59:59",
    b"0001-01-01T00:00:00", b"2025-03-30T02:30:00", b"2025-13-01T00:00:00", b"Ystday 09:00",
    b"JobID|Start|End|NodeList", b"t,node,idle", b"; UnixStartTime: 99999999999999", b"; MaxNodes: 1000000",
    b"; MaxProcs: 99999999999", b"{", b"[" * 3000, b'"', b"|", b"||||||||||||", b"\n", b"\r\n", b"\t", b" ",
    b",", b";", b"\x00", b"\xff\xfe", b"\xef\xbb\xbf", "٣".encode(), b"node=999999999999", b"node=1e9",
    b"1.46K", b"999999M", b"2K", b"=", b"_[0-999999999]", b"_[0-9:0]", b"%", b"(null)", b"N/A", b"*",
    "²".encode(), b"9" * 400, b"1-", b"00:00:00", b"99999999-23:59:59", b"1e999", b"-0", b"\x1f", b"\xe2\x80\xa8",
    b"\x0c", b"[[" * 3000, b'{"a":' * 3000, b"gres/gpu=", b"freetrain:", b"..", b"../../etc/passwd",
]  # fmt: skip
_MOST_BYTES = 400_000
"""So that the time of a trial is that of the parser."""
_CELL = re.compile(rb"[^|,;\t\n\"\[\]{}:= /\x1f()]+")


def damaged_text(random: random.Random, text: str) -> str:
    """The same of text, as freetrain decodes what a command printed."""
    return damaged(random, text.encode("utf-8", "surrogateescape")).decode(errors="replace")


def damaged(random: random.Random, data: bytes) -> bytes:
    """A text in which chance has changed something, once or several times."""
    for _ in range(random.choice([1, 1, 1, 2, 2, 3, 5, 8])):
        data = random.choice(_WAYS)(random, data)[:_MOST_BYTES]
    return data


def _replace_a_cell(random: random.Random, data: bytes) -> bytes:
    cells = list(_CELL.finditer(data))
    if not cells:
        return data
    cell = random.choice(cells)
    return data[: cell.start()] + random.choice(HOSTILE) + data[cell.end() :]


def _replace_a_column(random: random.Random, data: bytes) -> bytes:
    """The same thing in one cell of many rows."""
    column, what = random.randint(0, 9), random.choice(HOSTILE)
    lines = data.split(b"\n")
    for number, line in enumerate(lines):
        cells = line.split(b"|")
        if len(cells) > column and random.random() < 0.7:
            cells[column] = what
            lines[number] = b"|".join(cells)
    return b"\n".join(lines)


def _insert(random: random.Random, data: bytes) -> bytes:
    at = random.randint(0, len(data))
    return data[:at] + random.choice(HOSTILE) + data[at:]


def _flip_a_byte(random: random.Random, data: bytes) -> bytes:
    if not data:
        return data
    at = random.randrange(len(data))
    return data[:at] + bytes([random.randrange(256)]) + data[at + 1 :]


def _cut_out(random: random.Random, data: bytes) -> bytes:
    begin, end = sorted(random.randint(0, len(data)) for _ in range(2))
    return data[:begin] + data[min(end, begin + 400) :]


def _cut_off(random: random.Random, data: bytes) -> bytes:
    return data[: random.randint(0, len(data))]


def _shuffle_lines(random: random.Random, data: bytes) -> bytes:
    lines = data.split(b"\n")
    random.shuffle(lines)
    return b"\n".join(lines)


def _repeat_lines(random: random.Random, data: bytes) -> bytes:
    lines = data.split(b"\n")
    return b"\n".join([*lines, *random.choices(lines, k=random.choice([3, 30, 300]))])


_WAYS = (
    _replace_a_cell, _replace_a_cell, _replace_a_cell, _replace_a_cell, _replace_a_column, _insert, _insert,
    _flip_a_byte, _flip_a_byte, _cut_out, _cut_off, _shuffle_lines, _repeat_lines,
)  # fmt: skip
