"""The door through Slurm's own commands: works with every Slurm."""

from __future__ import annotations

import os
import secrets
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence

from freetrain.core.cluster import Job, Snapshot
from freetrain.slurm import commands
from freetrain.slurm.commands import Command
from freetrain.slurm.errors import SlurmMissingError, SlurmRefusedError, SlurmUnreachableError, explain
from freetrain.slurm.layout_facts import SlurmLayout
from freetrain.slurm.layout_reader import LayoutReader
from freetrain.slurm.parsing import (
    JobRun,
    parse_jobs,
    parse_nodes,
    parse_reservations,
    parse_runs,
)
from freetrain.slurm.settings import parse_last_plan_s
from freetrain.slurm.tags import TAG_PREFIX


class CommandLine:
    """Asks with squeue, scontrol and sacct.

    Args:
        timeout_s: how long one command may take.
        clock_s: UTC epoch seconds.
        environment: added to that of Slurm's commands; sbatch hands it on to the job.
    """

    def __init__(
        self,
        timeout_s: float = 30.0,
        clock_s: Callable[[], float] = time.time,
        environment: Mapping[str, str] = commands.ENVIRONMENT,
    ) -> None:
        self._timeout_s = timeout_s
        self._clock_s = clock_s
        self._environment = environment
        self._layout = LayoutReader(self._ask, clock_s)
        self._asked_for_layout = 0
        self._last_plan_s: float | None = None
        self._was_away = False
        self.asked = 0

    def snapshot(self) -> Snapshot:
        """See :class:`freetrain.slurm.gateway.Gateway`: three questions, at first a fourth about partitions.

        Later on partitions are as of the last :meth:`layout`.
        """
        self._check_answering()
        mark = secrets.token_hex(8)
        jobs, bad_jobs = parse_jobs(self._ask(commands.ask_jobs(mark)), mark, TAG_PREFIX)
        jobs = self._tell_apart(jobs, mark)
        nodes, bad_nodes = parse_nodes(self._ask(commands.ask_nodes()))
        reservations, bad_reservations = parse_reservations(self._ask(commands.ask_reservations()))
        partitions = self._layout.partitions()
        return Snapshot(
            self._clock_s(),
            tuple(nodes),
            tuple(jobs),
            tuple(reservations),
            partitions,
            tuple(bad_jobs + bad_nodes + bad_reservations + self._layout.rejected),
        )

    def _tell_apart(self, jobs: list[Job], mark: str) -> list[Job]:
        """Ask about trainers' arrays in which some tasks are held and others wait: squeue shows both as one."""
        mixed = {job.array for job in jobs if "," in job.reason and job.comment.startswith(TAG_PREFIX)}
        if not mixed:
            return jobs
        tasks, _ = parse_jobs(self._ask(commands.ask_tasks(mark, *sorted(mixed))), mark, TAG_PREFIX)
        return [job for job in jobs if job.array not in mixed] + tasks

    def layout(self, max_age_s: float, most_questions: int) -> SlurmLayout:
        """See :class:`freetrain.slurm.gateway.Gateway`."""
        self._check_answering()
        return self._layout.layout(max_age_s, most_questions)

    def last_plan_s(self) -> float | None:
        """See :class:`freetrain.slurm.gateway.Gateway`; as of before where the last look asked for the layout.

        So no look asks more than four questions, besides what became of jobs.
        """
        asked_before, self._asked_for_layout = self._asked_for_layout, self._layout.asked
        if asked_before == self._asked_for_layout:
            try:
                self._last_plan_s = parse_last_plan_s(self._ask(commands.ask_statistics()))
            except SlurmRefusedError:
                self._last_plan_s = None  # not everybody may ask everywhere
        return self._last_plan_s

    def runs(self, jobs: Sequence[str]) -> list[JobRun]:
        """See :class:`freetrain.slurm.gateway.Gateway`."""
        if not jobs:
            return []
        try:
            return parse_runs(self._ask(commands.ask_runs(jobs)))[0]
        except SlurmRefusedError:
            return []  # no accounting here

    def perform(self, command: Command, stdin: str = "") -> str:
        """See :class:`freetrain.slurm.gateway.Gateway`."""
        return self._ask(command, stdin)

    def _check_answering(self) -> None:
        """After a failure ask first what is answered at once; others take ten seconds with nobody there."""
        if self._was_away and "is UP" not in self._ask(commands.ping()):
            raise SlurmUnreachableError("Slurm's controller is still away.", "See whether slurmctld runs.")

    def _ask(self, command: Command, stdin: str = "") -> str:
        self.asked += 1
        try:
            ran = subprocess.run(
                command,
                input=stdin,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=self._timeout_s,
                env={**os.environ, **self._environment},
                check=False,
            )
        except FileNotFoundError as error:
            raise SlurmMissingError(
                f"there is no {command[0]} on this machine.", "Install Slurm's client commands, or look at PATH."
            ) from error
        except subprocess.TimeoutExpired as error:
            self._was_away = True
            raise SlurmUnreachableError(
                f"{' '.join(command[:3])} got no answer within {self._timeout_s:g} s.",
                "See whether slurmctld runs.",
            ) from error
        if ran.returncode != 0:
            failure = explain(" ".join(command[:3]), ran.stderr or ran.stdout)
            self._was_away = isinstance(failure, SlurmUnreachableError)
            raise failure
        self._was_away = False
        return ran.stdout
