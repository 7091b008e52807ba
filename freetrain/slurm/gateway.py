"""The one door to Slurm: questions and orders, by Slurm's commands or by pyslurm.

Some questions only Slurm's commands answer: every gateway asks these through :meth:`Gateway.perform`.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence

from freetrain.core.cluster import Snapshot
from freetrain.core.fragment_queue import FragmentQueue
from freetrain.core.job import Job, JobRun
from freetrain.slurm import queries
from freetrain.slurm.asking import TaskSpec, parse_requests
from freetrain.slurm.commands import Command
from freetrain.slurm.errors import SlurmBusyError, SlurmRefusedError
from freetrain.slurm.parsing import parse_preemptions
from freetrain.slurm.settings import Rights, parse_rights
from freetrain.slurm.site.facts import Site

PAUSES_S = (0.2, 0.5, 1.0)
"""Seconds between the daemon's attempts at an order; few, because more is waiting than one order."""

USERS_PAUSES_S = (*PAUSES_S, 2.0, 4.0, 8.0)
"""Seconds between attempts of a user's command: a new job can be changed only when accounting knows it."""


class Gateway(ABC):
    """A way to Slurm. All of them give equal answers.

    Each question raises a SlurmUnreachableError if Slurm does not answer, or in a way that cannot be understood.

    Attributes:
        calls: number of questions and orders to Slurm so far.
    """

    calls = 0

    @abstractmethod
    def snapshot(self) -> Snapshot:
        """The machine and its jobs now; jobs in no particular order."""

    @abstractmethod
    def job(self, id_: str) -> list[Job]:
        """One job, or all tasks of an array; none if Slurm does not know it."""

    @abstractmethod
    def site(self, max_age_s: float, most_questions: int) -> Site:
        """Slurm's settings, partitions, QOS and associations, read again if older than ``max_age_s``.

        There are four questions; what is oldest is asked first, and associations only if ``max_age_s`` is 0.
        If accounting does not answer, its last answer counts.

        Raises:
            SlurmError: Slurm does not answer.
        """

    @abstractmethod
    def last_plan_s(self) -> float | None:
        """Time of Slurm's last plan of the waiting jobs, UTC epoch seconds; None: Slurm does not show it."""

    @abstractmethod
    def runs(self, jobs: Sequence[str]) -> list[JobRun]:
        """Runs of these jobs that accounting remembers; none where the site has no accounting."""

    def task_requests(self, queue: FragmentQueue, default_memory_mb: int) -> Mapping[str, TaskSpec]:
        """Array or job → request of one of its tasks; see :func:`freetrain.slurm.asking.parse_requests`.

        Raises:
            SlurmError: Slurm does not answer.
        """
        asked = self.perform(queries.ask_needs(queue))
        return parse_requests(asked, self.perform(queries.ask_excluded_nodes(queue)), default_memory_mb)

    def preempted_at(self, jobs: Sequence[str]) -> Mapping[str, float]:
        """Job → time at which Slurm asked it to leave, UTC epoch seconds, of jobs that it asked and remembers."""
        try:
            return parse_preemptions(self.perform(queries.ask_preemptions(*jobs))) if jobs else {}
        except SlurmRefusedError:
            # It knows none of these jobs any more.
            return {}

    def rights(self, user: str) -> Rights | None:
        """Rights of the account over the jobs of others; None: accounting does not know it.

        Raises:
            SlurmError: accounting does not answer.
        """
        try:
            return parse_rights(self.perform(queries.ask_rights(user)))
        except SlurmRefusedError:
            return None

    @abstractmethod
    def perform(self, command: Command, stdin: str = "") -> str:
        """Give Slurm a command; returns what it printed.

        Raises:
            SlurmUnreachableError: Slurm does not answer; the command may have had its effect nevertheless.
            SlurmBusyError: Slurm cannot do it just now.
            SlurmRefusedError: Slurm refuses it.
        """

    def perform_patiently(
        self,
        command: Command,
        stdin: str = "",
        sleep: Callable[[float], None] = time.sleep,
        pauses_s: Sequence[float] = PAUSES_S,
    ) -> str:
        """Give Slurm a command, again after each pause as long as it is busy; returns what it printed.

        Raises:
            SlurmError: see :meth:`perform`.
        """
        for pause_s in pauses_s:
            try:
                return self.perform(command, stdin)
            except SlurmBusyError:
                sleep(pause_s)
        return self.perform(command, stdin)
