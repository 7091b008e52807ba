"""Sole lender of a queue: a daemon leaves its mark in Slurm, and heeds that of another.

The mark is a held job where its fragments run: the one thing that an account without power over Slurm can leave
there, that every version shows to everybody, that survives slurmctld's restart and needs no accounting. It never
runs. Its comment says whose it is, and when it was last renewed.
"""

from __future__ import annotations

import getpass
import logging
import os
import re
import socket
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from freetrain.core.cluster import Snapshot
from freetrain.core.fragment_queue import FragmentQueue
from freetrain.core.job import Job, JobState
from freetrain.daemon.executor import AuditedOrders
from freetrain.errors import ExitCode, FreetrainError, StateError
from freetrain.slurm import commands
from freetrain.slurm.errors import SlurmBusyError, SlurmError, SlurmRefusedError
from freetrain.slurm.gateway import Gateway
from freetrain.slurm.launcher import Order
from freetrain.slurm.settings import SlurmSettings

log = logging.getLogger(__name__)

MARK_NAME = "freetrain-daemon"
RENEW_EVERY_S = 60.0
FRESH_S = 200.0
"""Seconds after its renewal in which a mark stands for a daemon that runs."""
_COMMENT = re.compile(r"freetrain-daemon:host=([^,]+),pid=(\d{1,18}),at=(\d{1,18}),state=(.+)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Holder:
    """A daemon that lends: its host, its process there, and its state directory."""

    host: str
    process: int
    directory: str

    def comment(self, now_s: float) -> str:
        """Comment of its mark when renewed at this time, UTC epoch seconds."""
        return f"freetrain-daemon:host={self.host},pid={self.process},at={now_s:.0f},state={self.directory}"


@dataclass(frozen=True, slots=True)
class Mark:
    """A mark: Slurm's id of the job, its user, the daemon that it names, and its renewal, UTC epoch seconds."""

    job: str
    user: str
    holder: Holder
    renewed_s: float


def find_marks(jobs: Iterable[Job], queue: FragmentQueue) -> list[Mark]:
    """All marks in a queue, the oldest first."""
    found = []
    for job in jobs:
        match = _COMMENT.fullmatch(job.comment)
        if match and queue.has(job) and job.state is JobState.PENDING and job.id.isdecimal():
            holder = Holder(match[1], int(match[2]), match[4])
            found.append(Mark(job.id, job.user, holder, float(match[3])))
    return sorted(found, key=lambda mark: int(mark.job))


NO_SCRIPT = "#!/bin/sh\nexit 0\n"
"""Script of jobs that never run."""


class SoleLender:
    """Holds the mark of this daemon, if it lends.

    Marks count only of those who could lend at all: any user may submit a job with any comment.
    """

    def __init__(
        self, gateway: Gateway, orders: AuditedOrders, settings: SlurmSettings, queue: FragmentQueue,
        directory: Path, clock_s: Callable[[], float] = time.time,
    ) -> None:  # fmt: skip
        self._gateway = gateway
        self._orders = orders
        self._queue = queue
        self._clock_s = clock_s
        self._user = getpass.getuser()
        self._trusted = {"root", settings.slurm_user, self._user}
        self._distrusted: set[str] = set()
        self._holder = Holder(socket.gethostname(), os.getpid(), str(directory.resolve()))
        self._job: str | None = None
        self._renewed_s = 0.0

    def claim(self, snapshot: Snapshot) -> None:
        """Leave the mark, unless another daemon has one.

        Raises:
            FreetrainError: another daemon lends in this queue; nothing was left.
            SlurmUnreachableError: Slurm does not answer.
        """
        if self._job is not None:
            return
        marks = self._marks(snapshot)
        self._refuse_beside(marks)
        # The marks that are left are of daemons that are gone.
        for mark in marks:
            with suppress(SlurmRefusedError, SlurmBusyError):
                self._orders.give(Order(commands.cancel(mark.job), "the mark of a daemon that is gone"))
        command = commands.submit_held(self._queue, MARK_NAME, self._holder.comment(self._clock_s()))
        try:
            printed = self._orders.give(Order(command, "the mark of this daemon", NO_SCRIPT))
        except (SlurmRefusedError, SlurmBusyError) as error:
            log.warning("no mark can be left in Slurm, so another daemon would not find this one: %s", error.what)
            return
        self._job, self._renewed_s = printed.strip().partition(";")[0], self._clock_s()
        # Two daemons may claim at the same time: of two marks, the one with the smaller job id stays.
        older = [mark for mark in self._marks(self._gateway.snapshot()) if int(mark.job) < int(self._job)]
        try:
            self._refuse_beside(older)
        except FreetrainError:
            self.close()
            raise

    def renew(self) -> None:
        """Show that this daemon is still there, once a minute, before anything else is done.

        Raises:
            FreetrainError: another daemon has taken over, since this one was silent for long.
            SlurmUnreachableError: Slurm does not answer.
        """
        now_s = self._clock_s()
        if self._job is None or now_s - self._renewed_s < RENEW_EVERY_S:
            return
        # Not in the audit: it is the same each minute, and changes nothing that anybody has.
        try:
            self._gateway.perform(commands.set_comment(self._job, self._holder.comment(now_s)))
        except SlurmBusyError:
            return
        except SlurmRefusedError:
            # Somebody has cancelled the mark.
            self._job = None
            self.claim(self._gateway.snapshot())
        else:
            self._renewed_s = now_s

    def close(self) -> None:
        """Take the mark away."""
        job, self._job = self._job, None
        if job is not None:
            with suppress(SlurmError, StateError):
                self._orders.give(Order(commands.cancel(job), "this daemon does not lend any more"))

    def _marks(self, snapshot: Snapshot) -> list[Mark]:
        return [mark for mark in find_marks(snapshot.jobs, self._queue) if self._may_lend(mark.user)]

    def _refuse_beside(self, marks: Iterable[Mark]) -> None:
        for mark in marks:
            other, own = mark.holder, self._holder
            # A date far in the future does not show that a daemon is alive, either.
            is_fresh = abs(self._clock_s() - mark.renewed_s) < FRESH_S
            # The lock of the directory, which this daemon has, says that the other one there has ended.
            if is_fresh and (other.host, other.directory) != (own.host, own.directory):
                raise FreetrainError(
                    f"Another daemon lends in {self._queue}: process {other.process} on "
                    f"{other.host}, with its state in {other.directory}.",
                    f"Stop it first. If it is gone, cancel its mark (scancel {mark.job}), or wait some minutes.",
                    ExitCode.TRY_AGAIN,
                )

    def _may_lend(self, user: str) -> bool:
        if user not in self._trusted | self._distrusted:
            try:
                rights = self._gateway.rights(user)
            except SlurmError:
                rights = None
            (self._trusted if rights and rights.may_steer else self._distrusted).add(user)
        return user in self._trusted
