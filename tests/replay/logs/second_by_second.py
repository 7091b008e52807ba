"""Idle parts of used nodes, counted the slow way: every second of every node, one after the other.

It shares no code with freetrain and reads plain sacct files alone: seconds as times, lists such as ``c[1-3,7]``.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np

KINDS = ("cpu", "memory", "gpu")


@dataclass
class Piece:
    """What one job holds of one node."""

    begin: int
    end: int
    amount: dict[str, float]
    alone: bool


def count_idle_parts(
    text: str, from_s: int, until_s: int, cpus: Mapping[str, int] | None = None
) -> dict[str, dict[str, float]]:
    """Node → hours in which it was partly used, and hours × CPUs, bytes and GPUs that lay idle then.

    Args:
        text: what sacct -P printed.
        from_s: start of the window.
        until_s: its end.
        cpus: of each node; None: the most that jobs held there.
    """
    found = {}
    for node, mine in sorted(_all_pieces(text, from_s, until_s).items()):
        partly, free = _free_on(mine, until_s - from_s, cpus.get(node) if cpus else None)
        idle = {kind: float(free[kind][partly].sum()) / 3600 for kind in KINDS}
        found[node] = {"node": float(partly.sum()) / 3600, **idle}
    return found


def count_fitting(
    text: str, from_s: int, until_s: int, task: Mapping[str, float], shortest_s: int
) -> dict[str, tuple[float, float]]:
    """Node → hours × tasks that would have fit while it had jobs, and while it had none.

    Each counts if it would have fit for so long without a break.

    Args:
        text: what sacct -P printed.
        from_s: start of the window.
        until_s: its end.
        task: what one takes, by kind.
        shortest_s: for how long it must fit to count.
    """
    found, pieces = {}, _all_pieces(text, from_s, until_s)
    for node, fits in fitting_by_second(text, from_s, until_s, task).items():
        used = np.zeros(until_s - from_s, bool)
        for piece in pieces[node]:
            used[piece.begin : piece.end] = True
        beside = empty = 0
        for number in range(1, int(fits.max()) + 1):
            for begin, end in runs_of(fits >= number):
                if end - begin >= shortest_s:
                    beside += int(used[begin:end].sum())
                    empty += int((~used[begin:end]).sum())
        found[node] = (beside / 3600, empty / 3600)
    return found


def fitting_by_second(text: str, from_s: int, until_s: int, task: Mapping[str, float]) -> dict[str, np.ndarray]:
    """Node → how many tasks fit in each second, beside its jobs or alone."""
    found = {}
    for node, mine in sorted(_all_pieces(text, from_s, until_s).items()):
        _, free = _free_on(mine, until_s - from_s, None)
        found[node] = np.min([np.floor(free[kind] / each + 1e-6) for kind, each in task.items()], axis=0)
    return found


def runs_of(there: np.ndarray) -> list[tuple[int, int]]:
    """Beginning and end of each run of seconds in which something is there."""
    found, begin = [], None
    for second, is_there in enumerate([*there.tolist(), False]):
        if is_there and begin is None:
            begin = second
        elif not is_there and begin is not None:
            found.append((begin, second))
            begin = None
    return found


def _all_pieces(text: str, from_s: int, until_s: int) -> Mapping[str, list[Piece]]:
    pieces: defaultdict[str, list[Piece]] = defaultdict(list)
    header, *lines = text.strip().split("\n")
    for line in lines:
        for node, piece in _pieces(dict(zip(header.split("|"), line.split("|"), strict=True)), from_s, until_s):
            pieces[node].append(piece)
    return pieces


def _free_on(pieces: list[Piece], seconds: int, cpus: int | None) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """In which seconds a node is partly used, and how much of each kind is free then."""
    jobs = np.zeros(seconds, np.int32)
    held = {kind: np.zeros(seconds) for kind in KINDS}
    sure = {kind: np.zeros(seconds) for kind in KINDS}
    least = dict(zip(KINDS, (1.0, 0.0, 0.0), strict=True))
    for piece in pieces:
        jobs[piece.begin : piece.end] += 1
        for kind in KINDS:
            amount = piece.amount[kind]
            held[kind][piece.begin : piece.end] += amount
            sure[kind][piece.begin : piece.end] += amount if piece.alone else min(amount, least[kind])
    size = {kind: max(sure[kind].max(), *(piece.amount[kind] for piece in pieces), 0) for kind in KINDS}
    size["cpu"] = cpus or size["cpu"]
    partly = (jobs > 0) & (size["cpu"] - held["cpu"] > 0.999)
    return partly, {kind: (size[kind] - held[kind]).clip(0) for kind in KINDS}


def _pieces(row: Mapping[str, str], from_s: int, until_s: int) -> Iterator[tuple[str, Piece]]:
    times = (datetime.fromisoformat(row[name]).replace(tzinfo=UTC).timestamp() for name in ("Start", "End"))
    begin, end = (min(max(int(time_s), from_s), until_s) - from_s for time_s in times)
    if end <= begin:
        return
    names = _names(row["NodeList"])
    tres = dict(entry.split("=") for entry in row.get("AllocTRES", "").split(",") if entry)
    memory = re.fullmatch(r"([\d.]+)([MGT])", tres.get("mem", "0M"))
    assert memory
    amount = {
        "cpu": float(row["NCPUS"]) / len(names),
        "memory": float(memory[1]) * 1024 ** ("  MGT".index(memory[2])) / len(names),
        "gpu": float(tres.get("gres/gpu", "0")) / len(names),
    }
    for name in names:
        yield name, Piece(begin, end, amount, len(names) == 1)


def _names(text: str) -> list[str]:
    found = []
    for prefix, inside, plain in re.findall(r"([^,\[]+)\[([^\]]*)\]|([^,\[]+)", text):
        for part in inside.split(",") if inside else ():
            low, _, high = part.partition("-")
            found += [f"{prefix}{number:0{len(low)}d}" for number in range(int(low), int(high or low) + 1)]
        found += [plain] if plain else []
    return found
