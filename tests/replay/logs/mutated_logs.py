"""Logs of the folder of odd ones, damaged by chance, and options drawn by chance."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

from freetrain.replay.logs import ReadOptions, read_site_log
from tests.fuzzing.damage import damaged
from tests.fuzzing.running import Parser
from tests.replay.logs.test_odd_logs import DAY_S, EXPECTED, FOLDER, options_of

NAMES = sorted(EXPECTED)
READABLE = [name for name in NAMES if "error" not in EXPECTED[name]]
OUTAGES = [
    b"Cluster|NodeName|TimeStart|TimeEnd|State|Reason|User\n"
    b"x|n1|2025-03-03T05:00:00|2025-03-03T06:00:00|DOWN*|broken | again|root\n"
    b"x|n[2-3]|2025-03-03T05:00:00|Unknown|DRAIN||root\nx||2025-03-03T05:00:00|2025-03-03T05:00:00|||\n",
    b"ReservationName=m StartTime=2025-03-03T05:00:00 EndTime=2025-03-03T08:00:00 Duration=03:00:00\n"
    b"   Nodes=n[1-2] NodeCnt=2 Flags=MAINT\n",
]


def trial(random: random.Random, folder: Path) -> None:
    """Read a damaged log, or two."""
    names = random.choices(READABLE if random.random() < 0.9 else NAMES, k=1 if random.random() < 0.9 else 2)
    paths = []
    for number, name in enumerate(names):
        path = folder / f"mutated{number}"
        data = (FOLDER / name).read_bytes()
        if random.random() < 0.15:
            data += (FOLDER / random.choice(NAMES)).read_bytes()
        path.write_bytes(damaged(random, data))
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


PARSERS = {"logs": Parser(trial)}
