"""Timetable of the daemon's looks: at its polls, when it is nudged or woken, and when something happened."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterator
from math import inf
from pathlib import Path
from typing import Self

from freetrain.daemon.controls.nudge import NudgeListener, Senders, WakeFile
from freetrain.lending.pace import next_look_s, retry_after_s

log = logging.getLogger(__name__)

_BETWEEN_LOOKS_S, _ECHO_S = 0.5, 0.2
_WAKE_FILE_EVERY_S = 0.1
# A machine's clock that gains or loses so much against the monotonic one was set.
_CLOCK_JUMP_S = 2.0


class Timetable:
    """Polls and nudges, which come in while it is :meth:`running`, and whatever else is due again and again.

    Where the machine's clock is set, by years at a boot without a battery, nothing is made up for and nothing
    waits: all is counted on the monotonic clock, and all but polls is due at once when the clock was set.

    Attributes:
        woken_s: when a nudge or the wake file last caused a look, UTC epoch seconds; None: never yet.
    """

    def __init__(
        self, directory: Path, poll_s: float, plan_interval_s: float, senders: Senders,
        clock_s: Callable[[], float] = time.time,
    ) -> None:  # fmt: skip
        self.woken_s: float | None = None
        self._directory = directory
        self._clock_s = clock_s
        self._senders = senders
        self._poll_s = poll_s
        self._plan_interval_s = plan_interval_s
        self._wake = threading.Event()
        self._wake_file = WakeFile(directory)
        self._asked = self._nudged = self._echo_due = False
        self._deaf_until_s = -inf
        self._poll_due_s = time.monotonic() + poll_s
        self._clock_lead_s = _clock_lead_s()
        self._due_events: list[threading.Event] = []
        self._is_over = False

    def every(self, period_s: float, job: Callable[[], object]) -> None:
        """Do this again and again, in a thread of its own; not while it still runs.

        The thread is there from the start: if memory is used up, CPython's Thread.start() waits for ever for a
        thread that found none to begin with. One that hangs does not keep the process from ending.
        """
        due = threading.Event()
        self._due_events.append(due)
        threading.Thread(target=self._do_when_due, args=(period_s, job, due), name="again", daemon=True).start()

    def _do_when_due(self, period_s: float, job: Callable[[], object], due: threading.Event) -> None:
        due_s = time.monotonic() + period_s
        while not self._is_over:
            # To wait and to log takes memory, which may be missing.
            with contextlib.suppress(MemoryError, OSError):
                due.wait(max(0.0, due_s - time.monotonic()))
                try:
                    if not self._is_over:
                        job()
                except Exception:
                    log.exception("a periodic task has failed; it runs again when it is due")
            # What fell due meanwhile is not made up for.
            due.clear()
            due_s = max(due_s, time.monotonic()) + period_s

    def _let_all_be_due(self) -> None:
        for due in self._due_events:
            due.set()

    def plan_poll(self, last_plan_s: float | None, look_s: float) -> None:
        """Let the next poll fall right before Slurm's next plan; the last was at this time, UTC epoch seconds."""
        self._deaf_until_s, now_s = -inf, self._clock_s()
        self._poll_in(next_look_s(now_s, self._poll_s, last_plan_s, self._plan_interval_s, look_s) - now_s)

    def plan_retry(self, failures: int) -> None:
        """Let the next poll come later, since Slurm did not answer; no nudge counts before the usual one."""
        # A nudge of slurmctld's plug-ins says that it is there again; many nudges must not become many questions.
        self._deaf_until_s = time.monotonic() + self._poll_s
        self._poll_in(retry_after_s(self._poll_s, failures))

    def _poll_in(self, seconds: float) -> None:
        self._poll_due_s = time.monotonic() + seconds

    def wake(self) -> None:
        """Let the daemon look now."""
        self._wake.set()

    def ask(self) -> None:
        """Let it look soon; for signal handlers: what they interrupt may hold the lock that waking takes."""
        self._asked = True

    def wait(self, look_s: float) -> None:
        """Wait until it is time to look; never less than a moment, so that many nudges cause few looks."""
        quiet_until_s = time.monotonic() + max(_BETWEEN_LOOKS_S, 2 * look_s)
        while not self._asked and (left_s := quiet_until_s - time.monotonic()) > 0:
            time.sleep(min(left_s, _BETWEEN_LOOKS_S))
        # An epilog nudges while Slurm is still clearing up after the job, and a plug-in before Slurm has the job
        # that is submitted: another look follows the first.
        until_s = time.monotonic() + (_ECHO_S if self._echo_due and not self._is_deaf else inf)
        while not self._wake.wait(_WAKE_FILE_EVERY_S) and not self._is_due(until_s):
            pass
        self._wake.clear()
        self._asked = False
        if time.monotonic() >= self._poll_due_s:
            self._poll_in(self._poll_s)
        if self._nudged:
            self.woken_s = self._clock_s()
        self._echo_due, self._nudged = self._nudged, False

    def _is_due(self, until_s: float) -> bool:
        """Whether a look was asked for, a nudge counts (a byte in the wake file is one), or it is time to poll."""
        self._nudged = self._wake_file.has_changed() or self._nudged
        self._heed_clock()
        is_time = time.monotonic() >= min(until_s, self._poll_due_s)
        return self._asked or (self._nudged and not self._is_deaf) or is_time

    def _heed_clock(self) -> None:
        """Let all that is done again and again be due where the machine's clock was set."""
        lead_s = _clock_lead_s()
        if abs(lead_s - self._clock_lead_s) > _CLOCK_JUMP_S:
            self._let_all_be_due()
        self._clock_lead_s = lead_s

    @property
    def _is_deaf(self) -> bool:
        return time.monotonic() < self._deaf_until_s

    def _nudge(self) -> None:
        self._nudged = True
        if not self._is_deaf:
            self.wake()

    @contextlib.contextmanager
    def running(self) -> Iterator[Self]:
        """Let polls and nudges come in meanwhile."""
        listener = NudgeListener(self._directory, self._nudge, self._senders)
        try:
            yield self
        finally:
            self._is_over = True
            self._let_all_be_due()
            listener.close()


def _clock_lead_s() -> float:
    return time.time() - time.monotonic()
