"""The door through pyslurm: one question instead of four, no texts to parse; equal answers."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from freetrain.core.cluster import Snapshot
from freetrain.core.job import Job, JobRun
from freetrain.slurm import queries
from freetrain.slurm.answers import check_not_empty
from freetrain.slurm.command_line import CommandLine
from freetrain.slurm.commands import Command
from freetrain.slurm.gateway import Gateway
from freetrain.slurm.parsing import tasks_of
from freetrain.slurm.pyslurm_child import WANTED
from freetrain.slurm.pyslurm_facts import snapshot_of
from freetrain.slurm.pyslurm_process import PROGRAM, PyslurmProcess
from freetrain.slurm.site.facts import Site
from freetrain.slurm.tags import TAG_PREFIX


class PyslurmClient(Gateway):
    """Asks pyslurm for the cluster, and Slurm's commands for everything else.

    Orders stay with the commands, because pyslurm's are silent about some refusals and crash on others; what
    accounting remembers too, because pyslurm hides the earlier runs of a requeued job.

    Args:
        timeout_s: how long one question may take.
        clock_s: UTC epoch seconds.
        program: the child program.
    """

    def __init__(
        self, timeout_s: float = 30.0, clock_s: Callable[[], float] = time.time, program: Sequence[str] = PROGRAM
    ) -> None:
        self._commands = CommandLine(timeout_s, clock_s)
        self._clock_s = clock_s
        self._process = PyslurmProcess(timeout_s, program)
        self._was_away = False

    @property
    def calls(self) -> int:
        """See :class:`freetrain.slurm.gateway.Gateway`."""
        return self._calls + self._commands.calls

    def snapshot(self) -> Snapshot:
        """See :class:`freetrain.slurm.gateway.Gateway`."""
        if self._was_away:
            # A ping fails at once where nobody is there, pyslurm after ten seconds.
            self.perform(queries.ping())
        # Until there is an answer: what follows may raise anything.
        self._was_away = True
        self._calls += len(WANTED)
        answer = self._process.ask(*WANTED)
        self._was_away = False
        found = snapshot_of(answer, self._clock_s(), TAG_PREFIX)
        check_not_empty(found)
        return found

    def job(self, id_: str) -> list[Job]:
        """See :class:`freetrain.slurm.gateway.Gateway`; pyslurm's question for one job alone is no cheaper."""
        return [task for job in self.snapshot().jobs if job.array == id_ for task in tasks_of(job)]

    def site(self, max_age_s: float, most_questions: int) -> Site:
        """See :class:`freetrain.slurm.gateway.Gateway`; pyslurm does not know all of it."""
        return self._commands.site(max_age_s, most_questions)

    def last_plan_s(self) -> float | None:
        """See :class:`freetrain.slurm.gateway.Gateway`."""
        return self._commands.last_plan_s()

    def runs(self, jobs: Sequence[str]) -> list[JobRun]:
        """See :class:`freetrain.slurm.gateway.Gateway`."""
        return self._commands.runs(jobs)

    def perform(self, command: Command, stdin: str = "") -> str:
        """See :class:`freetrain.slurm.gateway.Gateway`."""
        return self._commands.perform(command, stdin)

    def start(self) -> str:
        """Start pyslurm, if it does not run yet; its version.

        Raises:
            SlurmUnreachableError: it does not come up.
            PyslurmUnusableError: it cannot be used here.
            SlurmMissingError: there is no Slurm configuration here.
        """
        self._process.start()
        return self._process.version

    def try_out(self) -> None:
        """Ask Slurm something small through pyslurm.

        Raises:
            SlurmUnreachableError: Slurm does not answer.
            PyslurmUnusableError: pyslurm does not fit Slurm.
        """
        self._process.ask("Partitions")

    def close(self) -> None:
        """End pyslurm's process; another question starts it again."""
        self._process.close()
