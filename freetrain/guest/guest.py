"""The host's side: a guest's process, which is asked questions and ended where it does not answer in time."""

from __future__ import annotations

import json
import os
import pickle
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import IO

from freetrain.guest.channel import LONGEST_S, Channel, GuestReport, QuestionEnd

# The guest imports what its host would, from the same places, however the host was started.
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

Ask = Callable[..., GuestReport]
"""Has a guest call one function, with these arguments and ``time_s``, as :meth:`Guest.ask` says."""

_DIES_WITHIN_S = 1.0
_LAST_WORDS_BYTES = 4096
_MEMORY_BYTES = 3 << 30
"""Below MemoryMax of systemd/freetrain.service, so that a model too large ends the guest and not the daemon."""


class GuestProcess:
    """The process, an empty interpreter and never a copy of this one, with the channel to it; raises OSError."""

    def __init__(self, imports: Sequence[str], memory_bytes: int | None, niceness: int) -> None:
        # A file and not a pipe: nobody reads while the guest works, and it would hang at a full pipe.
        self._output = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as this object
        ours, theirs = socket.socketpair()
        self.channel = Channel(ours)
        lifeline, held = os.pipe()
        arguments = [sys.path, lifeline, imports, memory_bytes, niceness]
        try:
            self._process = subprocess.Popen(
                # -P: a module in the directory where the host was started must not stand in for one of Python's.
                (sys.executable, "-P", "-c", _PROGRAM, json.dumps(arguments)),
                stdin=theirs.fileno(),
                stdout=self._output,
                stderr=self._output,
                pass_fds=(lifeline,),
                env={**os.environ, **_ENVIRONMENT},
                start_new_session=True,  # an interrupt from the terminal is for the host alone
            )
        except OSError:
            self.channel.close()
            self._output.close()
            os.close(held)
            raise
        finally:
            theirs.close()
            os.close(lifeline)
        # Also at the end of the interpreter, and where this object is collected.
        self._end = weakref.finalize(self, _end, self._process, self.channel, held, self._output)

    @property
    def pid(self) -> int:
        """Process id."""
        return self._process.pid

    def is_alive(self) -> bool:
        """Whether it runs, as a child of this process: not in a fork of the process that started it."""
        return self._process.poll() is None

    def end(self) -> None:
        """Kill it, and leave no zombie."""
        self._end()

    def obituary(self) -> str:
        """Cause of its death and its last output, as a clause; for a process that has closed the channel."""
        try:
            how = _describe(self._process.wait(_DIES_WITHIN_S))
        except subprocess.TimeoutExpired:
            return "hung up without an answer and was ended"
        if self._output.closed:  # at the end of this process, which ends its guests
            return "was ended"
        self._output.seek(max(0, self._output.seek(0, os.SEEK_END) - _LAST_WORDS_BYTES))
        lines = self._output.read().decode(errors="replace").split("\n")
        last = next((line.strip() for line in reversed(lines) if line.strip()), "")
        return f"died ({how})" + (f": {last}" if last else "")


def _end(process: subprocess.Popen[bytes], channel: Channel, lifeline: int, output: IO[bytes]) -> None:
    process.kill()
    channel.close()
    os.close(lifeline)
    output.close()
    with suppress(subprocess.TimeoutExpired):
        process.wait(_DIES_WITHIN_S)  # longer where it waits for a file server; it is reaped at the next start


def _describe(status: int) -> str:
    if status >= 0:
        return f"exit code {status}"
    try:
        return f"signal {-status}, {signal.Signals(-status).name}"
    except ValueError:
        return f"signal {-status}"


class Guest:
    """A process that calls functions for its host; started at the first question, and again after it was ended.

    Functions are named ``module:function`` and called with the arguments of the question and ``left_s``, which
    says how many seconds are left. Any thread may ask; one question is answered at a time, and its time counts
    from its turn. The process ends with this one. A process that has died by itself is reaped at the next
    question.

    Args:
        memory_bytes: most address space that it may have; none: no limit.
        start_s: wall seconds its start may take, imports included.
        patience_s: wall seconds by which an answer may be late; a new start costs more than a little waiting.
        rest_s: wall seconds after a start that failed until another one is tried: each may take ``start_s``.
        niceness: by how much its priority is below this process's; 19: it works when nothing else does.
    """

    def __init__(
        self,
        imports: Sequence[str] = (),
        memory_bytes: int | None = _MEMORY_BYTES,
        start_s: float = 30.0,
        patience_s: float = 0.5,
        rest_s: float = 600.0,
        niceness: int = 0,
    ) -> None:
        self._arguments = (tuple(imports), memory_bytes, niceness)
        self._start_s = start_s
        self._patience_s = patience_s
        self._rest_s = rest_s
        self._failed: tuple[float, GuestReport] | None = None
        self._turn = threading.Lock()
        self._guest_process: GuestProcess | None = None

    def ask(self, function: str, *arguments: object, time_s: float) -> GuestReport:
        """Call a function there; always returns within the time, the patience and what a start takes."""
        with self._turn:
            # Within the turn: two threads must not start two processes.
            if failure := self._start():
                return failure
            began_s = time.monotonic()
            until_s = began_s + min(time_s, LONGEST_S)
            question = pickle.dumps((function, arguments, until_s))
            return self._exchange(question, began_s, until_s + self._patience_s)

    def asking(self, function: str) -> Ask:
        """The question for this function, whatever its arguments."""
        return partial(self.ask, function)

    def close(self) -> None:
        """End the process; another question starts it again."""
        with self._turn:
            self._end()

    def _start(self) -> GuestReport | None:
        """Have a process that is ready; otherwise why there is none."""
        if self._guest_process is not None and self._guest_process.is_alive():
            return None
        self._end()
        began_s = time.monotonic()
        if self._failed is not None and began_s < self._failed[0] + self._rest_s:
            return self._failed[1]
        try:
            self._guest_process = GuestProcess(*self._arguments)
        except OSError as error:
            return self._not_started(str(error), began_s)
        hello = self._exchange(None, began_s, began_s + self._start_s)
        if hello.ending is QuestionEnd.ANSWERED:
            return None
        self._end()
        return self._not_started(f"it {hello.message}", began_s)

    def _not_started(self, why: str, began_s: float) -> GuestReport:
        now_s = time.monotonic()
        report = GuestReport(QuestionEnd.NOT_STARTED, None, f"could not be started: {why}", now_s - began_s)
        self._failed = now_s, report
        return report

    def _exchange(self, question: bytes | None, began_s: float, until_s: float) -> GuestReport:
        guest_process = self._guest_process
        assert guest_process is not None
        try:
            if question is not None:
                guest_process.channel.send(question, until_s)
            message = guest_process.channel.receive(until_s)
        except TimeoutError:
            took_s = time.monotonic() - began_s
            self._end()
            return GuestReport(
                QuestionEnd.TOO_LATE, None, f"had not answered after {took_s:.3g} s and was ended", took_s
            )
        except (EOFError, OSError):
            why = guest_process.obituary()
            self._end()
            return GuestReport(QuestionEnd.DIED, None, why, time.monotonic() - began_s)
        except BaseException:  # as an interrupt: the answer that is still to come belongs to no later question
            self._end()
            raise
        return self._read(message, time.monotonic() - began_s)

    def _read(self, message: bytes, took_s: float) -> GuestReport:
        try:
            ending, value = pickle.loads(message)
        except Exception as error:
            self._end()
            why = f"answered what cannot be read: {type(error).__name__}: {error}"
            return GuestReport(QuestionEnd.RAISED, None, why, took_s)
        if ending is QuestionEnd.RAISED:
            return GuestReport(QuestionEnd.RAISED, None, f"failed: {value}", took_s)
        return GuestReport(QuestionEnd.ANSWERED, value, "", took_s)

    def _end(self) -> None:
        if self._guest_process is not None:
            self._guest_process.end()
        self._guest_process = None
