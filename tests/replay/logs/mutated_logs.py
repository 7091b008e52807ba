"""Logs of the folder of odd ones, damaged by chance, and options drawn by chance."""

from __future__ import annotations

import random
import re
from dataclasses import replace
from pathlib import Path

from freetrain.replay.logs import ReadOptions, read_site_log
from tests.replay.logs.test_odd_logs import DAY_S, EXPECTED, FOLDER, options_of

NAMES = sorted(EXPECTED)
READABLE = [name for name in NAMES if "error" not in EXPECTED[name]]
HOSTILE = [
    b"", b"0", b"-1", b"1e300", b"1e-300", b"nan", b"inf", b"NaN", b"NA", b"99999999999999999999", b"9" * 5000,
    b"4294967296", b"2147483648", b"99999999999", b"n[1-999999]", b"n[1-99999999]", b"n[000001-150000]", b"n[",
    b"n[9-1]", b"a[1-99]b[1-99]c[1-99]", b"[1-5]", b"n[1-2,2-3]", b"UNLIMITED", b"Unknown", b"None assigned",
    b"RUNNING", b"SUSPENDED", b"PENDING", b"2034-01-01T00:00:00", b"9999-12-31T23:59:59",
    b"0001-01-01T00:00:00", b"2025-03-30T02:30:00", b"2025-13-01T00:00:00", b"Ystday 09:00",
    b"JobID|Start|End|NodeList", b"t,node,idle", b"; UnixStartTime: 99999999999999", b"; MaxNodes: 1000000",
    b"; MaxProcs: 99999999999", b"{", b"[" * 3000, b'"', b"|", b"||||||||||||", b"\n", b"\r\n", b"\t", b" ",
    b",", b";", b"\x00", b"\xff\xfe", b"\xef\xbb\xbf", "٣".encode(), b"node=999999999999", b"node=1e9",
    b"1.46K", b"999999M", b"2K",
]  # fmt: skip
OUTAGES = [
    b"Cluster|NodeName|TimeStart|TimeEnd|State|Reason|User\n"
    b"x|n1|2025-03-03T05:00:00|2025-03-03T06:00:00|DOWN*|broken | again|root\n"
    b"x|n[2-3]|2025-03-03T05:00:00|Unknown|DRAIN||root\nx||2025-03-03T05:00:00|2025-03-03T05:00:00|||\n",
    b"ReservationName=m StartTime=2025-03-03T05:00:00 EndTime=2025-03-03T08:00:00 Duration=03:00:00\n"
    b"   Nodes=n[1-2] NodeCnt=2 Flags=MAINT\n",
]
_CELL = re.compile(rb"[^|,;\t\n\"\[\]{}:]+")


def trial(random: random.Random, folder: Path) -> None:
    """Read a damaged log, or two."""
    names = random.choices(READABLE if random.random() < 0.9 else NAMES, k=1 if random.random() < 0.9 else 2)
    paths = []
    for number, name in enumerate(names):
        path = folder / f"mutated{number}"
        path.write_bytes(damaged(random, (FOLDER / name).read_bytes()))
        paths.append(path)
    options = options_of(EXPECTED[names[0]]) if random.random() < 0.8 else drawn_options(random)
    if random.random() < 0.2:
        options = replace(options, **drawn_outages(random, folder))
    log = read_site_log(paths, options)
    rows = log.rows
    assert rows.read == rows.used + sum(rows.ignored.values()) + rows.rejected
    assert 0 <= log.holes.idle_node_hours <= len(log.holes.node_names) * log.holes.duration_s / 3600 + 1e-6


def drawn_outages(random: random.Random, folder: Path) -> dict[str, Path]:
    """A damaged file that says when nodes were out of service."""
    what = random.choice(["node_states", "reservations"])
    path = folder / what
    path.write_bytes(damaged(random, random.choice(OUTAGES)))
    return {what: path}


def damaged(random: random.Random, data: bytes) -> bytes:
    """A text in which chance has changed something, once or several times."""
    for _ in range(random.choice([1, 1, 1, 2, 2, 3, 5, 8])):
        data = random.choice(_WAYS)(random, data)
    return data


def drawn_options(random: random.Random) -> ReadOptions:
    """Any options."""
    return ReadOptions(
        nodes=random.choice([None, 1, 4, 64, 5000]),
        timezone=random.choice(["UTC", "Europe/Berlin", "America/New_York"]),
        delimiter=random.choice([None, None, None, ";", "|", "^|^"]),
        cluster=random.choice([None, None, None, "alpha"]),
        skip_empty_hours=random.random() < 0.3,
        only_nodes=random.choice([None, None, None, "n[1-3]"]),
        **(DAY_S if random.random() < 0.5 else {}),
    )


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


def _join(random: random.Random, data: bytes) -> bytes:
    return data + (FOLDER / random.choice(NAMES)).read_bytes()


_WAYS = (
    _replace_a_cell, _replace_a_cell, _replace_a_cell, _replace_a_column, _insert, _insert, _flip_a_byte,
    _flip_a_byte, _cut_out, _cut_off, _shuffle_lines, _repeat_lines, _join,
)  # fmt: skip
