"""The door through Slurm's own commands: works with every Slurm."""

from __future__ import annotations

import os
import secrets
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Protocol, TypeVar

from freetrain.core.cluster import Snapshot
from freetrain.core.job import Asked, Job, JobRun, WaitsFor, shares_limit
from freetrain.slurm import commands, queries
from freetrain.slurm.answers import check_not_empty, whole_answer, whole_lines
from freetrain.slurm.asking import parse_asks
from freetrain.slurm.commands import Command
from freetrain.slurm.errors import SlurmMissingError, SlurmRefusedError, SlurmUnreachableError, explain
from freetrain.slurm.gateway import Gateway
from freetrain.slurm.parsing import parse_jobs, parse_nodes, parse_reservations, parse_runs
from freetrain.slurm.parsing.hardware import NodeRows
from freetrain.slurm.parsing.jobs import JobRows
from freetrain.slurm.settings import parse_last_plan_s
from freetrain.slurm.site.facts import Site
from freetrain.slurm.site.reader import SiteReader
from freetrain.slurm.tags import TAG_PREFIX


class RunCommand(Protocol):
    """A way to run a command."""

    def __call__(
        self, command: Command, stdin: str, timeout_s: float, environment: Mapping[str, str]
    ) -> subprocess.CompletedProcess[str]:
        """Run a command; returns its output and exit status. The environment is added to the one that it inherits.

        Raises:
            FileNotFoundError: there is no such command.
            subprocess.TimeoutExpired: it took longer.
            OSError: this machine cannot start it now, as where memory or processes are used up.
        """


def run_here(
    command: Command, stdin: str, timeout_s: float, environment: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    """Run a command on this machine: see :class:`RunCommand`."""
    # Anybody's comment may hold any bytes, which must not end a look.
    return subprocess.run(
        command, input=stdin, capture_output=True, text=True, errors="replace", timeout=timeout_s,
        env={**os.environ, **environment}, check=False,
    )  # fmt: skip


_NO_RESERVATIONS = "No reservations in the system"

# Kept until the next snapshot reports them: a Slurm that answers nonsense must not fill the memory.
_MOST_REJECTED = 1000

_LOOK = "See whether slurmctld runs."
_MOST_SHOWN = 120
"""Letters of a command in a message."""

# Owners may change what a waiting job asks for, and seldom do.
_ASK_AGAIN_S = 120.0

_AnswerT = TypeVar("_AnswerT")


class CommandLine(Gateway):
    """Gateway that asks with squeue, scontrol and sacct.

    ``in_parts`` is whether nodes are lent in parts, so that it matters how much of them jobs have.
    """

    def __init__(
        self,
        timeout_s: float = 30.0,
        clock_s: Callable[[], float] = time.time,
        environment: Mapping[str, str] = commands.ENVIRONMENT,
        in_parts: bool = False,
        run: RunCommand = run_here,
    ) -> None:
        self._timeout_s = timeout_s
        self._run_command = run
        self._clock_s = clock_s
        self._environment = environment
        self._in_parts = in_parts
        self._asks: dict[str, Asked] = {}
        self._asks_s = float("-inf")
        self._asked_for_asks = False
        self._site = SiteReader(self._ask, clock_s)
        self._asked_for_site = 0
        self._last_plan_s: float | None = None
        self._was_away = False
        self._rejected: list[str] = []
        self._job_rows, self._node_rows = JobRows(), NodeRows()

    def snapshot(self) -> Snapshot:
        """See :class:`freetrain.slurm.gateway.Gateway`: three questions, at first a fourth about partitions.

        Later on partitions are as of the last :meth:`site`. Where nodes are lent in parts there is one more
        whenever there are new jobs, and now and then besides: what they ask of their nodes, or have.
        """
        self._check_answering()
        jobs = self._jobs(queries.ask_jobs, TAG_PREFIX, self._job_rows)
        # In some arrays of trainers a part of the tasks is held and others wait: squeue shows both as one record.
        mixed = {job.array for job in jobs if "," in job.reason and job.comment.startswith(TAG_PREFIX)}
        if mixed:
            tasks = self._jobs(lambda mark: queries.ask_tasks(mark, *sorted(mixed)), TAG_PREFIX)
            jobs = [job for job in jobs if job.array not in mixed] + tasks
        jobs = self._with_asks(jobs)
        lines = self._lines(queries.ask_nodes(self._in_parts), "NodeName=")
        nodes = self._understood(parse_nodes(lines, self._in_parts, self._node_rows))
        reservations = self._understood(
            parse_reservations(self._lines(queries.ASK_RESERVATIONS, "ReservationName=", _NO_RESERVATIONS))
        )
        partitions = self._site.partitions()
        rejected, self._rejected = (*self._rejected, *self._site.rejected), []
        found = Snapshot(self._clock_s(), tuple(nodes), tuple(jobs), tuple(reservations), partitions, rejected)
        check_not_empty(found)
        return found

    def job(self, id_: str) -> list[Job]:
        """See :class:`freetrain.slurm.gateway.Gateway`."""
        try:
            return self._jobs(lambda mark: queries.ask_job(mark, id_), "")
        except SlurmRefusedError:
            # It has forgotten the job, or never knew one
            return []

    def _jobs(self, question: Callable[[str], Command], expand: str, known: JobRows | None = None) -> list[Job]:
        # New for each question, so that nobody can write it into a comment.
        mark = secrets.token_hex(8)
        return self._understood(parse_jobs(self._ask(question(mark)), mark, expand, known))

    def _lines(self, command: Command, beginning: str, none_there: str = "") -> str:
        return self._understood(whole_lines(self._ask(command), beginning, " ".join(command), none_there))

    def _understood(self, parsed: tuple[_AnswerT, list[str]]) -> _AnswerT:
        """Facts that were understood of an answer; the rest is reported with the next snapshot."""
        facts, rejected = parsed
        self._rejected = [*self._rejected, *rejected][:_MOST_REJECTED]
        return facts

    def _with_asks(self, jobs: list[Job]) -> list[Job]:
        """Jobs, with what the waiting ones ask of their nodes, and what the site's running ones have of them."""
        # Where whole nodes are lent, amounts matter only of jobs that wait for a limit in which fragments count.
        waiting = _waiting_for_limits(jobs)
        if self._in_parts:
            waiting |= {job.array for job in jobs if job.state.is_waiting and job.waits_for is WaitsFor.NODES}
        theirs = {job.array for job in jobs if job.state.has_nodes and not job.comment.startswith(TAG_PREFIX)}
        is_old = bool(waiting) and self._clock_s() - self._asks_s > _ASK_AGAIN_S
        unknown = (waiting | theirs if self._in_parts else waiting) - self._asks.keys()
        self._asked_for_asks = bool(unknown) or is_old
        if self._asked_for_asks:
            question = queries.ask_needs_of(sorted(waiting | unknown))
            try:
                found = parse_asks(self._ask(question), self._site.shares_out_memory)
            except SlurmRefusedError:
                # It has just forgotten the only one
                found = {}
            # A job that was seen waiting is not asked about again when it runs.
            known = {id_: asked for id_, asked in self._asks.items() if id_ in theirs}
            self._asks = {**known, **{id_: found.get(id_, Asked()) for id_ in waiting | unknown}}
            self._asks_s = self._clock_s()
        return [
            replace(job, asks=asked.part if self._in_parts else None, least=asked.least, total=asked.total)
            if (job.state.is_waiting or job.state.has_nodes) and (asked := self._asks.get(job.array))
            else job
            for job in jobs
        ]

    def site(self, max_age_s: float, most_questions: int) -> Site:
        """See :class:`freetrain.slurm.gateway.Gateway`."""
        self._check_answering()
        return self._site.site(max_age_s, most_questions)

    def last_plan_s(self) -> float | None:
        """See :class:`freetrain.slurm.gateway.Gateway`; as of before where a look asked for anything else."""
        # So no look asks more than four questions, besides what became of jobs.
        asked_before, self._asked_for_site = self._asked_for_site, self._site.asked
        if asked_before == self._asked_for_site and not self._asked_for_asks:
            try:
                self._last_plan_s = parse_last_plan_s(self._ask(queries.ASK_STATISTICS))
            except SlurmRefusedError:
                # Not everybody may ask everywhere
                self._last_plan_s = None
        return self._last_plan_s

    def runs(self, jobs: Sequence[str]) -> list[JobRun]:
        """See :class:`freetrain.slurm.gateway.Gateway`."""
        if not jobs:
            return []
        try:
            return self._understood(parse_runs(self._ask(queries.ask_runs(jobs))))
        except SlurmRefusedError:
            # No accounting here
            return []

    def perform(self, command: Command, stdin: str = "") -> str:
        """See :class:`freetrain.slurm.gateway.Gateway`."""
        return self._ask(command, stdin)

    def _check_answering(self) -> None:
        # After a failure: a ping is answered at once, other questions take ten seconds with nobody there.
        if self._was_away and "is UP" not in self._ask(queries.PING):
            raise SlurmUnreachableError("Slurm does not answer: its controller is away.", _LOOK)

    def _ask(self, command: Command, stdin: str = "") -> str:
        self.calls += 1
        try:
            ran = self._run_command(command, stdin, self._timeout_s, self._environment)
        except FileNotFoundError as error:
            raise SlurmMissingError(
                f"there is no {command[0]} on this machine.", "Install Slurm's client commands, or look at PATH."
            ) from error
        except PermissionError as error:
            raise SlurmUnreachableError(
                f"{command[0]} cannot be run: {error.strerror}.", "See whether this account may execute it."
            ) from error
        except subprocess.TimeoutExpired as error:
            self._was_away = True
            raise SlurmUnreachableError(
                f"Slurm does not answer {_shown(command)} within {self._timeout_s:g} s.", _LOOK
            ) from error
        except (OSError, MemoryError) as error:
            raise SlurmUnreachableError(
                f"{command[0]} cannot be started on this machine: {getattr(error, 'strerror', None) or error}.",
                "See whether the disk is full, or memory, processes or open files are used up.",
            ) from error
        if ran.returncode != 0:
            failure = explain(_shown(command), ran.stderr or ran.stdout)
            failure.return_code = ran.returncode
            self._was_away = isinstance(failure, SlurmUnreachableError)
            raise failure
        self._was_away = False
        return whole_answer(command, ran.stdout)


def _shown(command: Command) -> str:
    """The beginning of a command, for messages: it may name thousands of jobs."""
    words = " ".join(command[:3])
    return words if len(words) <= _MOST_SHOWN else f"{words[:_MOST_SHOWN]}…"


def _waiting_for_limits(jobs: Iterable[Job]) -> set[str]:
    limited = [job for job in jobs if job.limit is not None and not job.comment.startswith(TAG_PREFIX)]
    if not limited:
        return set()
    ours = (job for job in jobs if job.state.has_nodes and job.comment.startswith(TAG_PREFIX))
    kinds = {(job.account, job.user, job.qos): job for job in ours}.values()
    return {job.array for job in limited if any(shares_limit(job, kind) for kind in kinds)}
