"""Processes that stand for nodes: started, killed with all that they started, never left behind."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_LIBC = ctypes.CDLL(None, use_errno=True)


def die_with_parent() -> None:
    """Have this process killed when its parent ends."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


@contextlib.contextmanager
def no_survivors() -> Iterator[None]:
    """Whatever was started inside, however indirectly, does not outlive it; SIGTERM ends it in good order.

    This process adopts those whose parents died, so that all stay its descendants.
    """
    _LIBC.prctl(_PR_SET_CHILD_SUBREAPER, 1)
    before = signal.signal(signal.SIGTERM, lambda number, _frame: sys.exit(128 + number))
    try:
        yield
    finally:
        kill_all(descendants(os.getpid()))
        signal.signal(signal.SIGTERM, before)


def descendants(pid: int) -> list[int]:
    """A process's children, their children, and so on."""
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            parent = int(stat.read_text().rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(stat.parent.name))
    found = list(children.get(pid, ()))
    for one in found:
        found += children.get(one, ())
    return found


def kill_all(pids: Sequence[int], patience_s: float = 10.0) -> None:
    """Kill processes of this session, and wait for those that are or become our children."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    until_s = time.monotonic() + patience_s
    for pid in pids:
        while Path(f"/proc/{pid}").exists() and time.monotonic() < until_s:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
            time.sleep(0.002)


class Node:
    """An agent and what it started.

    Args:
        command: runs the agent.
        environment: what to add to this process's own.
        log_path: gets all that is said.
    """

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], log_path: Path) -> None:
        self.log_path = log_path
        with log_path.open("w") as log:
            self._agent = subprocess.Popen(
                command,
                env={**os.environ, **environment},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=die_with_parent,
            )

    @property
    def runs(self) -> bool:
        """Whether the agent is alive."""
        return self._agent.poll() is None

    def hosts(self, pid: int) -> bool:
        """Whether this process runs on the node."""
        return pid in (self._agent.pid, *descendants(self._agent.pid))

    def ask_to_leave(self) -> None:
        """What a cluster does before it takes the node away."""
        self._agent.terminate()

    def await_end(self, patience_s: float) -> bool:
        """Whether the agent ends by itself in time."""
        try:
            self._agent.wait(patience_s)
        except subprocess.TimeoutExpired:
            return False
        return True

    def kill(self) -> None:
        """Take it away without a word, the agent first, so that it cannot tell anybody."""
        pids = descendants(self._agent.pid)
        self._agent.kill()
        kill_all(pids)
        self._agent.wait()
