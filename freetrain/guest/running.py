"""A guest's process while it runs."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import weakref
from collections.abc import Sequence
from contextlib import suppress
from typing import IO

from freetrain.guest.channel import Channel

_PROGRAM = """
import json, sys
paths, *arguments = json.loads(sys.argv[1])
sys.path[:] = paths
from freetrain.guest.child import main
main(*arguments)
"""

_ENVIRONMENT = {
    "PYTHONHASHSEED": "0",  # the same question gets the same answer, whatever is kept in sets
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
}

_DIES_WITHIN_S = 1.0
_LAST_WORDS_BYTES = 4096


class Running:
    """The process, with the channel to it. It gets an empty interpreter, never a copy of this one.

    Args:
        imports: modules that it imports before it says that it is ready.
        memory_bytes: most address space that it may have; none: no limit.

    Raises:
        OSError: it cannot be started.
    """

    def __init__(self, imports: Sequence[str], memory_bytes: int | None) -> None:
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as this object
        ours, theirs = socket.socketpair()
        self.channel = Channel(ours)
        lifeline, held = os.pipe()
        arguments = [sys.path, lifeline, imports, memory_bytes]
        try:
            self._process = subprocess.Popen(
                (sys.executable, "-P", "-c", _PROGRAM, json.dumps(arguments)),
                stdin=theirs.fileno(),
                stdout=self._said,
                stderr=self._said,
                pass_fds=(lifeline,),
                env={**os.environ, **_ENVIRONMENT},
                start_new_session=True,  # an interrupt from the terminal is for the host alone
            )
        except OSError:
            self.channel.close()
            self._said.close()
            os.close(held)
            raise
        finally:
            theirs.close()
            os.close(lifeline)
        # Also at the end of the interpreter, and where nobody remembers this object.
        self._end = weakref.finalize(self, _end, self._process, self.channel, held, self._said)

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def is_alive(self) -> bool:
        """Whether it runs, as a child of this process: not in a fork of the process that started it."""
        return self._process.poll() is None

    def end(self) -> None:
        """Kill it, and leave no zombie."""
        self._end()

    def obituary(self) -> str:
        """How it died, and what it said last; for a process that has closed the channel."""
        try:
            how = _describe(self._process.wait(_DIES_WITHIN_S))
        except subprocess.TimeoutExpired:
            return "hung up without an answer and was ended"
        self._said.seek(max(0, self._said.seek(0, os.SEEK_END) - _LAST_WORDS_BYTES))
        lines = self._said.read().decode(errors="replace").split("\n")
        last = next((line.strip() for line in reversed(lines) if line.strip()), "")
        return f"died ({how})" + (f": {last}" if last else "")


def _end(process: subprocess.Popen[bytes], channel: Channel, lifeline: int, said: IO[bytes]) -> None:
    process.kill()
    channel.close()
    os.close(lifeline)
    said.close()
    with suppress(subprocess.TimeoutExpired):
        process.wait(_DIES_WITHIN_S)  # longer where it waits for a file server; it is reaped at the next start


def _describe(status: int) -> str:
    """A return code in words."""
    if status >= 0:
        return f"exit code {status}"
    try:
        return f"signal {-status}, {signal.Signals(-status).name}"
    except ValueError:
        return f"signal {-status}"
