"""What tests of guests share."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from freetrain.guest.guest import Guest
from tests.guest import planted

LONG_S = 120.0


def named(function: Callable[..., object]) -> str:
    return f"{function.__module__}:{function.__name__}"


def pid_of(guest: Guest) -> int:
    report = guest.ask(named(planted.pid), time_s=LONG_S)
    assert isinstance(report.answer, int), report
    return report.answer


def is_gone(pid: int) -> bool:
    """Whether there is no such process, not even a zombie of ours."""
    return not Path(f"/proc/{pid}").exists()


def wait_until(holds: Callable[[], bool]) -> None:
    """Wait for what happens; what never does fails by pytest's own time."""
    while not holds():
        time.sleep(0.01)


def is_over(pid: int) -> bool:
    """Whether a process of somebody else runs no more; who adopts it may leave it a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True
