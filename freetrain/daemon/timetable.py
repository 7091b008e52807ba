"""Timetable of the daemon's looks: at its polls, when it is nudged or woken, and when something happened."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from math import inf
from pathlib import Path
from typing import Self

from apscheduler.executors.debug import DebugExecutor
from apscheduler.schedulers.background import BackgroundScheduler
from apscheduler.triggers.base import BaseTrigger

from freetrain.daemon.controls.nudge import NudgeListener, Senders, WakeFile
from freetrain.lending.pace import next_look_s, retry_after_s

log = logging.getLogger(__name__)

_BETWEEN_LOOKS_S, _ECHO_S = 0.5, 0.2
_WAKE_FILE_EVERY_S = 0.1
# A machine's clock that gains or loses so much against the monotonic one was set.
_CLOCK_JUMP_S = 2.0


class _PeriodFromNow(BaseTrigger):
    """Trigger after a period from now. APScheduler's own counts from when it was due, once a period since 1970."""

    def __init__(self, period_s: float) -> None:
        self._period = timedelta(seconds=period_s)

    def get_next_fire_time(self, previous_fire_time: datetime | None, now: datetime) -> datetime:
        """Time at which it is due next: a period from now."""
        return now + self._period


class _Scheduler(BackgroundScheduler):
    """A scheduler that goes on after a moment without memory."""

    def _main_loop(self) -> None:
        while self.running:
            with contextlib.suppress(MemoryError, OSError):
                super()._main_loop()
            time.sleep(_BETWEEN_LOOKS_S)


class Timetable:
    """Polls and nudges, which come in while it is :meth:`running`, and whatever else is due again and again.

    Where the machine's clock is set, by years at a boot without a battery, nothing is made up for and nothing
    waits: polls are counted on the monotonic clock, and all else is due at once when the clock was set.

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
        self._scheduler = _Scheduler(
            # In the scheduler's own thread: a job of it only sets an event.
            executors={"default": DebugExecutor()},
            # Whatever was missed is done once, however late: nothing here is worth making up for.
            job_defaults={"coalesce": True, "max_instances": 1, "misfire_grace_time": None},
            timezone="UTC",
        )

    def every(self, period_s: float, job: Callable[[], object]) -> None:
        """Do this again and again, in a thread of its own; not while it still runs.

        The thread is there from the start: if memory is used up, CPython's Thread.start() waits for ever for a
        thread that found none to begin with. One that hangs does not keep the process from ending.
        """
        due = threading.Event()
        self._due_events.append(due)
        threading.Thread(target=self._do_when_due, args=(job, due), name="again", daemon=True).start()
        self._scheduler.add_job(due.set, _PeriodFromNow(period_s))

    def _do_when_due(self, job: Callable[[], object], due: threading.Event) -> None:
        while not self._is_over:
            due.wait()
            # For the log, too, memory may be missing.
            with contextlib.suppress(MemoryError, OSError):
                try:
                    if not self._is_over:
                        job()
                except Exception:
                    log.exception("a periodic task has failed; it runs again when it is due")
            # What fell due meanwhile is not made up for.
            due.clear()

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
        lead_s = _clock_lead_s()
        if abs(lead_s - self._clock_lead_s) > _CLOCK_JUMP_S:
            # The scheduler counts on the machine's clock, which was set: it starts again.
            for job in self._scheduler.get_jobs():
                job.modify(next_run_time=datetime.now(UTC))
        self._clock_lead_s = lead_s
        is_time = time.monotonic() >= min(until_s, self._poll_due_s)
        return self._asked or (self._nudged and not self._is_deaf) or is_time

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
        self._scheduler.start()
        try:
            yield self
        finally:
            self._scheduler.shutdown(wait=False)
            self._is_over = True
            for due in self._due_events:
                due.set()
            listener.close()


def _clock_lead_s() -> float:
    return time.time() - time.monotonic()
