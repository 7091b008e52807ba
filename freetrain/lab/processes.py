"""Which processes belong to a lab, as the kernel's process table has them.

Pid files are not asked: they outlive daemons that were killed, and then name somebody else's process.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

_DAEMONS = {"munged", "mariadbd", "slurmdbd", "slurmctld", "slurmscriptd", "slurmd", "slurmstepd"}
_POLL_S = 0.05


@dataclass(frozen=True)
class Process:
    """A process of a lab.

    Args:
        pid: its number.
        parent: the number of its parent.
        name: of its program.
        node: the node whose slurmd, slurmstepd or task it is; empty for other daemons.
    """

    pid: int
    parent: int
    name: str
    node: str


def daemons(root: Path) -> list[Process]:
    """The daemons of the lab in a directory, slurmstepds among them."""
    return [process for pid in _pids() if (process := _daemon(pid, root)) is not None]


def tasks(root: Path, node: str | None, steps: Collection[int]) -> list[Process]:
    """The processes of the jobs on a node, or on all.

    They are what the slurmstepds started, and what daemonised itself away from them.
    """
    parents = {pid: parent for pid in _pids() if (parent := _parent(pid)) is not None}
    found = [pid for pid in parents if _descends(pid, steps, parents) or _says_it_runs_on(pid, root, node)]
    return [Process(pid, parents[pid], "task", node or "") for pid in found if pid != os.getpid()]


def send(processes: Collection[Process], number: signal.Signals) -> None:
    """Send a signal to those that are still there."""
    for process in processes:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, number)


def wait_until(fine: Callable[[], bool], seconds: float) -> bool:
    """Wait at most so long for something to be so; whether it is."""
    deadline = time.monotonic() + seconds
    while not fine():
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_S)
    return True


def _daemon(pid: int, root: Path) -> Process | None:
    try:
        here = Path(f"/proc/{pid}")
        name = (here / "comm").read_text().strip()
        if name not in _DAEMONS or (parent := _parent(pid)) is None:
            return None
        arguments = os.fsdecode((here / "cmdline").read_bytes()).split("\0")
        directory = (here / "cwd").readlink()
    except OSError:
        return None
    # Whole paths, not their beginnings: another lab may lie within this one's directory.
    files = {str(root / file) for file in ("slurm.conf", "munge/munge.socket", "database")}
    named = {argument.partition("=")[2] or argument for argument in arguments}
    on_a_node = directory.parent == root / "nodes"
    if not (on_a_node or directory == root / "log" or files & named):
        return None
    return Process(pid, parent, name, directory.name if on_a_node else "")


def _pids() -> Iterator[int]:
    return (int(entry.name) for entry in os.scandir("/proc") if entry.name.isdigit())


def _parent(pid: int) -> int | None:
    """Number of the parent; None for what is gone, or has ended and waits for its parent to notice."""
    try:
        # The program's name stands in parentheses, and may hold anything, parentheses too.
        state, parent = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[:2]
    except OSError:
        return None
    return None if state in "ZX" else int(parent)


def _descends(pid: int, ancestors: Collection[int], parents: dict[int, int]) -> bool:
    while (parent := parents.get(pid)) is not None:
        if parent in ancestors:
            return True
        pid = parent
    return False


def _says_it_runs_on(pid: int, root: Path, node: str | None) -> bool:
    try:
        environment = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return False
    if f"SLURM_CONF={root}/slurm.conf".encode() not in environment:
        return False
    if node is None:
        return any(each.startswith(b"SLURMD_NODENAME=") for each in environment)
    return f"SLURMD_NODENAME={node}".encode() in environment
