"""The host's side: asks a process of its own, and ends it where it does not answer in time."""

from __future__ import annotations

import pickle
import threading
import time
from collections.abc import Sequence

from freetrain.guest.channel import LONGEST_S
from freetrain.guest.report import Ending, Report
from freetrain.guest.running import Running

_MEMORY_BYTES = 3 << 30
"""Below MemoryMax of systemd/freetrain.service, so that a model too large ends the guest and not the daemon."""


class Guest:
    """A process that calls functions for us; started at the first question, and anew after it was ended.

    Functions are named ``module:function`` and called with the arguments of the question and ``left_s``, which
    says how many seconds are left. Any thread may ask; one question is answered at a time, and its time counts
    from its turn. The process ends with this one. One that has died by itself is reaped at the next question.

    Args:
        imports: modules that it imports at its start.
        memory_bytes: most address space that it may have; none: no limit.
        start_s: wall seconds its start may take, imports included.
        patience_s: wall seconds by which an answer may be late; starting anew costs more than a little waiting.
        rest_s: wall seconds after a start that failed until another one is tried: each may take ``start_s``.
    """

    def __init__(
        self,
        imports: Sequence[str] = (),
        memory_bytes: int | None = _MEMORY_BYTES,
        start_s: float = 30.0,
        patience_s: float = 0.5,
        rest_s: float = 600.0,
    ) -> None:
        self._arguments = (tuple(imports), memory_bytes)
        self._start_s = start_s
        self._patience_s = patience_s
        self._rest_s = rest_s
        self._failed: tuple[float, Report] | None = None
        self._turn = threading.Lock()
        self._running: Running | None = None

    def ask(self, function: str, *arguments: object, time_s: float) -> Report:
        """Call a function there; always returns within the time, the patience and what a start takes.

        Args:
            function: as ``module:function``.
            arguments: anything that can be pickled.
            time_s: wall seconds that it may take.
        """
        with self._turn:
            if failure := self._start():
                return failure
            until_s = time.monotonic() + min(time_s, LONGEST_S)
            question = pickle.dumps((function, arguments, until_s))
            return self._exchange(question, until_s + self._patience_s)

    def close(self) -> None:
        """End the process; another question starts it again."""
        with self._turn:
            self._end()

    def _start(self) -> Report | None:
        """Have a process that is ready; otherwise why there is none."""
        if self._running is not None and self._running.is_alive():
            return None
        self._end()
        began_s = time.monotonic()
        if self._failed is not None and began_s < self._failed[0] + self._rest_s:
            return self._failed[1]
        try:
            self._running = Running(*self._arguments)
        except OSError as error:
            return self._not_started(str(error), began_s)
        hello = self._exchange(None, began_s + self._start_s)
        if hello.ending is Ending.ANSWERED:
            return None
        self._end()
        return self._not_started(f"it {hello.said}", began_s)

    def _not_started(self, why: str, began_s: float) -> Report:
        now_s = time.monotonic()
        report = Report(Ending.NOT_STARTED, None, f"could not be started: {why}", now_s - began_s)
        self._failed = now_s, report
        return report

    def _exchange(self, question: bytes | None, until_s: float) -> Report:
        """Send a question, if there is one, and wait for the answer."""
        running = self._running
        assert running is not None
        began_s = time.monotonic()
        try:
            if question is not None:
                running.channel.send(question, until_s)
            message = running.channel.receive(until_s)
        except TimeoutError:
            took_s = time.monotonic() - began_s
            self._end()
            return Report(Ending.TOO_LATE, None, f"had not answered after {took_s:.3g} s and was ended", took_s)
        except (EOFError, OSError):
            said = running.obituary()
            self._end()
            return Report(Ending.DIED, None, said, time.monotonic() - began_s)
        except BaseException:  # as an interrupt: the answer that is still to come belongs to no later question
            self._end()
            raise
        return self._read(message, time.monotonic() - began_s)

    def _read(self, message: bytes, took_s: float) -> Report:
        try:
            ending, value = pickle.loads(message)
        except Exception as error:
            self._end()
            said = f"answered what cannot be read: {type(error).__name__}: {error}"
            return Report(Ending.RAISED, None, said, took_s)
        if ending is Ending.RAISED:
            return Report(Ending.RAISED, None, f"failed: {value}", took_s)
        return Report(Ending.ANSWERED, value, "", took_s)

    def _end(self) -> None:
        if self._running is not None:
            self._running.end()
        self._running = None
