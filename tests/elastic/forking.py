"""Processes forked from one that has imported torch already: they boot in milliseconds instead of seconds.

Run as a script this is the process that forks, one for all of pytest's workers, until the last of them has ended.
It reads requests, a line each, from connections to a socket that it inherits. Of every process that it starts it
writes the pid to PREFIX.pid and, when that has ended, the exit status to PREFIX.status; what the process prints is
in PREFIX.out and PREFIX.err.
"""

from __future__ import annotations

import atexit
import contextlib
import faulthandler
import functools
import gc
import json
import os
import runpy
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

PATIENCE_S = 150.0
"""For whatever is waited for: a limit for what hangs, not for what is slow on a machine that is busy otherwise."""


class Forked:
    """A forked process, with what tests use of Popen."""

    def __init__(
        self, script: Path, environment: Mapping[str, str], prefix: Path, arguments: Sequence[str] = ()
    ) -> None:
        self._prefix = prefix
        for suffix in (".pid", ".status"):  # of an earlier one of this name
            prefix.with_suffix(suffix).unlink(missing_ok=True)
        self.returncode: int | None = None
        request = {
            "command": [str(script), *arguments],
            "environment": dict(environment),
            "prefix": str(prefix),
        }
        _forker().sendall(json.dumps(request).encode() + b"\n")
        until_s = time.monotonic() + PATIENCE_S
        while (pid := self._number("pid")) is None:
            assert time.monotonic() < until_s, "the process that forks hangs, or has ended"
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
        # Where its end is not told yet it may be over all the same.
        with contextlib.suppress(ProcessLookupError):
            if self.poll() is None:
                os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    @property
    def stdout(self) -> str:
        """What it has printed."""
        return self._prefix.with_suffix(".out").read_text()

    @property
    def stderr(self) -> str:
        """What it has complained of."""
        return self._prefix.with_suffix(".err").read_text()

    def _number(self, suffix: str) -> int | None:
        path = self._prefix.with_suffix(f".{suffix}")
        return int(path.read_text()) if path.exists() else None


@functools.cache
def _forker() -> socket.socket:
    """A connection to the process that forks, which the first who asks starts."""
    address = f"\0freetrain-forker-{os.environ.get('PYTEST_XDIST_TESTRUNUID', os.getpid())}"
    with socket.socket(socket.AF_UNIX) as server, contextlib.suppress(OSError):  # where another one was the first
        server.bind(address)
        server.listen()
        command = [sys.executable, __file__, str(server.fileno())]
        environment = os.environ | {"OMP_NUM_THREADS": "1"}
        subprocess.Popen(command, env=environment, pass_fds=[server.fileno()], start_new_session=True)
    connection = socket.socket(socket.AF_UNIX)
    while connection.connect_ex(address):
        time.sleep(0.01)
    return connection


def serve(server: socket.socket) -> None:
    """Return in every forked process, and when nobody is left who could ask."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    with selectors.DefaultSelector() as selector:
        selector.register(server, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                if key.fileobj is server:
                    connection, _ = server.accept()
                    selector.register(connection, selectors.EVENT_READ, connection.makefile())
                elif line := key.data.readline():
                    request = json.loads(line)
                    if os.fork() == 0:
                        watch(request, Path(request["prefix"]))
                        return
                else:
                    selector.unregister(key.fileobj)
                    if len(selector.get_map()) == 1:
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
    for number, suffix in ((1, ".out"), (2, ".err")):
        os.dup2(os.open(prefix.with_suffix(suffix), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), number)
    faulthandler.enable()
    os.environ.clear()
    os.environ.update(request["environment"])
    # NCCL refuses two ranks on one GPU, unless it takes them for ranks of two hosts: one GPU is enough for a test.
    os.environ["NCCL_HOSTID"] = str(os.getpid())
    sys.argv = request["command"]
    # It is called after what the script registers, and before what torch registered in the process that forks.
    atexit.register(end)
    try:
        runpy.run_path(sys.argv[0], run_name="__main__")
        STATUS[0] = 0
    except SystemExit as exit_:
        STATUS[0] = exit_.code if isinstance(exit_.code, int) else int(exit_.code is not None)
        raise


STATUS = [1]
"""With what this process ends."""


def end() -> None:
    """What Python does after all exit functions would copy all memory of torch, for half a second."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(STATUS[0])


def write(path: Path, number: int) -> None:
    path.with_suffix(".new").write_text(str(number))
    path.with_suffix(".new").replace(path)


if __name__ == "__main__":
    atexit.register(end)
    # What the first optimizer and the first wrapper would import otherwise, in each process again.
    import torch._dynamo
    import torch.distributed.fsdp  # noqa: F401

    from freetrain.cli.run import run_command  # noqa: F401
    from freetrain.elastic import Run  # noqa: F401

    gc.freeze()  # or every forked process would go through all of torch's objects when it ends
    serve(socket.socket(fileno=int(sys.argv[1])))
