"""Doing the replays of a sweep: what every way of it gives back, and doing them on this machine."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Generator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from threading import Lock
from typing import Any

from freetrain.replay.sweep.spec import Cell


@dataclass(frozen=True, slots=True)
class Finished:
    """A replay that is over.

    Attributes:
        cell: which one.
        document: what ``freetrain replay --json`` printed; None: it failed.
        why: what it said where it failed.
    """

    cell: Cell
    document: dict[str, Any] | None
    why: str = ""


def command_of(cell: Cell) -> list[str]:
    """The command that does a replay of a sweep, and prints its outcome."""
    quietly = ("--exact", "--json", "--quiet", "--no-store", "--no-report")
    return [sys.executable, "-m", "freetrain", "replay", *cell.arguments, *quietly]


def finished(cell: Cell, printed: str, said: str) -> Finished:
    """What a replay came to, from what it printed to standard output and said on standard error."""
    try:
        return Finished(cell, json.loads(printed))
    except ValueError:
        last = said.strip().splitlines()[-3:]
        return Finished(cell, None, " ".join(line.strip() for line in last) or "It ended without a word.")


def do_here(cells: Sequence[Cell], workers: int) -> Generator[Finished, None, None]:
    """Do the replays on this machine, so many at once; each is told when it is over.

    Whoever stops asking ends those that run.
    """
    running = _Running()
    pool = ThreadPoolExecutor(workers)
    try:
        for done in as_completed([pool.submit(running.do, cell) for cell in cells]):
            yield done.result()
    finally:
        running.end()
        pool.shutdown(cancel_futures=True)


class _Running:
    """The processes that are at work."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._processes: set[subprocess.Popen[str]] = set()
        self._is_over = False

    def do(self, cell: Cell) -> Finished:
        """Do one replay in a process of its own."""
        with self._lock:
            if self._is_over:
                return Finished(cell, None, "It was not begun.")
            process = subprocess.Popen(
                command_of(cell),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            self._processes.add(process)
        printed, said = process.communicate()
        with self._lock:
            self._processes.discard(process)
        return finished(cell, printed if process.returncode == 0 else "", said)

    def end(self) -> None:
        """End all that is at work, and begin nothing more."""
        with self._lock:
            self._is_over = True
            for process in self._processes:
                process.kill()
