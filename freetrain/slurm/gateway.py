"""The one door to Slurm: questions and orders, whichever way the words go."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from freetrain.core.cluster import Snapshot
from freetrain.core.fragment_queue import FragmentQueue
from freetrain.core.job import Job, JobRun
from freetrain.slurm.asking import TaskSpec
from freetrain.slurm.commands import Command
from freetrain.slurm.settings import Rights
from freetrain.slurm.site.facts import Site


class Gateway(Protocol):
    """A way to Slurm. All of them give equal answers."""

    @property
    def calls(self) -> int:
        """How often Slurm has been asked or ordered something."""

    def snapshot(self) -> Snapshot:
        """Everything there is now; jobs in no particular order.

        Raises:
            SlurmUnreachableError: Slurm does not answer, or in a way that cannot be understood.
        """

    def job(self, id_: str) -> list[Job]:
        """One job, or all tasks of an array; none where Slurm does not know it.

        Raises:
            SlurmUnreachableError: Slurm does not answer, or in a way that cannot be understood.
        """

    def site(self, max_age_s: float, most_questions: int) -> Site:
        """Slurm's settings, partitions, QOS and associations, read again where older than ``max_age_s``.

        There are four questions; what is oldest is asked first, and associations only where ``max_age_s`` is 0.
        Where accounting does not answer, what it showed before counts.

        Raises:
            SlurmError: Slurm does not answer.
        """

    def last_plan_s(self) -> float | None:
        """When Slurm last planned the waiting jobs, UTC epoch seconds; None: it does not say.

        Raises:
            SlurmUnreachableError: Slurm does not answer.
        """

    def runs(self, jobs: Sequence[str]) -> list[JobRun]:
        """What accounting remembers of these jobs; nothing where the site has none.

        Raises:
            SlurmUnreachableError: Slurm does not answer.
        """

    def task_requests(self, queue: FragmentQueue, default_memory_mb: int) -> Mapping[str, TaskSpec]:
        """Array or job → what one of its tasks asks for.

        Args:
            queue: whose jobs.
            default_memory_mb: what a job that asks for no memory is shown to ask for; 0: nothing.

        Raises:
            SlurmError: Slurm does not answer.
        """

    def preempted_at(self, jobs: Sequence[str]) -> Mapping[str, float]:
        """When Slurm asked these jobs to leave, UTC epoch seconds; those missing it did not, or has forgotten.

        Raises:
            SlurmUnreachableError: Slurm does not answer.
        """

    def rights(self, user: str) -> Rights | None:
        """What the account may do to the jobs of others; None: accounting does not know it.

        Raises:
            SlurmError: accounting does not answer.
        """

    def perform(self, command: Command, stdin: str = "") -> str:
        """Tell Slurm to do something; what it printed.

        Raises:
            SlurmUnreachableError: it does not answer; the command may have had its effect nevertheless.
            SlurmBusyError: it cannot just now.
            SlurmRefusedError: it will not.
        """
