"""Processes forked from one that has imported torch already: they boot in milliseconds instead of seconds.

Run as a script this is the process that forks. It reads one request per line; of every process that it starts it
writes the pid to PREFIX.pid and, when that has ended, the exit status to PREFIX.status.
"""

from __future__ import annotations

import atexit
import faulthandler
import functools
import gc
import json
import os
import runpy
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import IO


class Forked:
    """A forked process, with what tests use of Popen."""

    def __init__(self, script: Path, environment: Mapping[str, str], prefix: Path) -> None:
        self._prefix = prefix
        self.returncode: int | None = None
        request = {"script": str(script), "environment": dict(environment), "prefix": str(prefix)}
        forker = _forker()
        assert forker.stdin is not None
        forker.stdin.write(json.dumps(request) + "\n")
        forker.stdin.flush()
        while (pid := self._number("pid")) is None:
            assert forker.poll() is None, "the process that forks has ended"
            time.sleep(0.001)
        self.pid = pid

    def poll(self) -> int | None:
        if self.returncode is None:
            self.returncode = self._number("status")
        return self.returncode

    def wait(self, timeout: float = float("inf")) -> int:
        until_s = time.monotonic() + timeout
        while (status := self.poll()) is None:
            if time.monotonic() > until_s:
                raise subprocess.TimeoutExpired(self._prefix.name, timeout)
            time.sleep(0.005)
        return status

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _number(self, suffix: str) -> int | None:
        path = self._prefix.with_suffix(f".{suffix}")
        return int(path.read_text()) if path.exists() else None


@functools.cache
def _forker() -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, __file__], env=os.environ | {"OMP_NUM_THREADS": "1"}, stdin=subprocess.PIPE, text=True
    )
    atexit.register(process.kill)
    return process


def serve(requests: IO[str]) -> None:
    """Return in every forked process, and at the end of the requests."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while line := requests.readline():
        request = json.loads(line)
        if os.fork() == 0:
            watch(request, Path(request["prefix"]))
            return


def watch(request: dict, prefix: Path) -> None:
    """Return in the forked process; another one stays to see how it ends."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    pid = os.fork()
    if pid == 0:
        become(request, prefix)
        return
    write(prefix.with_suffix(".pid"), pid)
    _, status = os.waitpid(pid, 0)
    write(prefix.with_suffix(".status"), os.waitstatus_to_exitcode(status))
    os._exit(0)


def become(request: dict, prefix: Path) -> None:
    os.setsid()
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(os.open(prefix.with_suffix(".err"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), 2)
    faulthandler.enable()
    os.environ.clear()
    os.environ.update(request["environment"])
    sys.argv = [request["script"]]
    runpy.run_path(request["script"], run_name="__main__")


def write(path: Path, number: int) -> None:
    path.with_suffix(".new").write_text(str(number))
    path.with_suffix(".new").replace(path)


if __name__ == "__main__":
    # What the first optimizer and the first wrapper would import otherwise, in each process anew.
    import torch._dynamo  # noqa: F401

    from freetrain.elastic import Run  # noqa: F401

    gc.freeze()  # or every forked process would go through all of torch's objects when it ends
    serve(sys.stdin)
