"""Jobs of squeue and the arrays among them, and how jobs ended: runs of accounting, who cancelled. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial

from freetrain.core.job import Job, JobRun, JobState
from freetrain.slurm.errors import SlurmUnclearError
from freetrain.slurm.parsing.node_lists import expand_nodes
from freetrain.slurm.parsing.words import KnownRows, count_of, limit_of, text_or_nothing, time_of
from freetrain.slurm.queries import JOB_FIELDS, RUN_FIELDS, SEPARATOR
from freetrain.slurm.states import job_state, shared_limit_of, unknown_job_state, waits_for

_STATE = JOB_FIELDS.index("%T")
# MaxArraySize is 4,000,001 at most: a longer list is not counted out.
_LAST_TASK = 4_000_000


JobRows = KnownRows[tuple[tuple[Job, ...], tuple[str, ...]]]
"""Jobs of a row of squeue, and what was not understood of it."""


def parse_jobs(text: str, mark: str, expand: str, known: JobRows | None = None) -> tuple[list[Job], list[str]]:
    """Jobs of ``squeue``, and what was not understood.

    A comment may hold anything, even line breaks and what looks like another job; the mark at the beginning of
    each record tells them apart. Arrays of waiting tasks come as one record; those whose comment begins with
    ``expand`` are taken apart into tasks, the others stay one job.
    """
    records = text.split(f"{mark}{SEPARATOR}")[1:]
    rows = (known or JobRows()).read(records, partial(_jobs_of, expand=expand))
    return [job for jobs, _ in rows for job in jobs], [problem for _, problems in rows for problem in problems]


def _jobs_of(record: str, expand: str) -> tuple[tuple[Job, ...], tuple[str, ...]]:
    # So many splits at most: the comment comes last, and may hold separators.
    fields = record.rstrip("\n").split(SEPARATOR, len(JOB_FIELDS) - 1)
    try:
        job = _job(fields)
        jobs = tuple(tasks_of(job)) if job.comment.startswith(expand) else (job,)
        problems = unknown_job_state(fields[_STATE])
        return jobs, tuple(f"job {job.id[:40]!r}: {problem}" for problem in problems)
    except ValueError as error:
        return (), (f"job {fields[0][:40]!r}: {error}",)


def _job(fields: list[str]) -> Job:
    if len(fields) != len(JOB_FIELDS):
        raise ValueError(f"{len(fields)} fields instead of {len(JOB_FIELDS)}")
    (id_, array, user, account, partition, state, reason, submitted, start, end, limit, count, priority, nodes,
     planned, required, features, qos, dependency, comment) = fields  # fmt: skip
    known, reason = job_state(state), "" if reason == "None" else reason
    return Job(
        id=id_,
        array=array,
        user=user,
        account=text_or_nothing(account),
        partition=partition,
        state=known,
        reason=reason,
        waits_for=waits_for(reason),
        nodes=expand_nodes(nodes),
        node_count=count_of(count),
        submitted_s=time_of(submitted) or 0.0,
        start_s=time_of(start),
        end_s=time_of(end),
        planned_nodes=expand_nodes(planned) if known is JobState.PENDING else frozenset(),
        limit_s=limit_of(limit),
        priority=int(priority),
        features=text_or_nothing(features),
        qos=text_or_nothing(qos),
        required_nodes=expand_nodes(required),
        tasks=waiting_tasks(id_),
        limit=shared_limit_of(reason) if known is JobState.PENDING else None,
        dependency=text_or_nothing(dependency),
        max_running=max_running_of(id_),
        comment=text_or_nothing(comment),
    )


def tasks_of(job: Job) -> Iterator[Job]:
    """The tasks of an array's record, ``123_[0-3,7%2]``; any other job is its own only task."""
    base, bracket, tasks = job.id.partition("_[")
    if not bracket:
        yield job
        return
    for numbers in _task_numbers(tasks):
        for task in numbers:
            yield replace(job, id=f"{base}_{task}", tasks=1)


def waiting_tasks(id_: str) -> int:
    """Number of tasks that a job's record stands for, no more than may run at once; 1 where that is unknown."""
    _, bracket, tasks = id_.partition("_[")
    if not bracket:
        return 1
    try:
        count = sum(map(len, _task_numbers(tasks)))
    except ValueError:
        # Slurm shortens long lists, unless SLURM_BITSTR_LEN is 0.
        return 1
    return max(1, min(count, max_running_of(id_) or count))


def max_running_of(id_: str) -> int:
    """Number of tasks of an array's record that may run at once; 0: any number, or it is one job or task."""
    throttle = id_.partition("_[")[2].rstrip("]").partition("%")[2]
    return int(throttle) if throttle.isdecimal() else 0


def _task_numbers(tasks: str) -> Iterator[range]:
    for piece in tasks.rstrip("]").partition("%")[0].split(","):
        bounds, _, step = piece.partition(":")
        first, _, last = bounds.partition("-")
        if int(last or first) > _LAST_TASK:
            raise ValueError(f"no tasks of an array: {piece[:60]!r}")
        yield range(int(first), int(last or first) + 1, int(step or 1))


def parse_runs(text: str) -> tuple[list[JobRun], list[str]]:
    """Runs of ``sacct -D -P -n -X``, and the lines that were not understood."""
    runs, rejected = [], []
    for line in text.splitlines():
        fields = line.split("|")
        if len(fields) != len(RUN_FIELDS):
            rejected.append(f"accounting line with {len(fields)} fields: {line[:80]!r}")
            continue
        id_, state, start, end = fields
        runs.append(JobRun(id_, job_state(state), time_of(start), time_of(end)))
    return runs, rejected


def parse_cancellers(text: str) -> frozenset[int]:
    """The users that cancelled, as numbers, from what ``ask_who_cancelled`` printed."""
    return frozenset(map(int, re.findall(r"^CANCELLED by ([0-9]{1,10})\b", text, re.MULTILINE)))


def parse_preemptions(text: str) -> Mapping[str, float]:
    """Job → time at which it was asked to leave, UTC epoch seconds, if it was, as ``ask_preemptions`` printed.

    Raises:
        SlurmUnclearError: it is not such a table; a preempted fragment would be taken for one that has completed.
    """
    header, *rows = [line.split() for line in text.splitlines()] or [[]]
    if "PREEMPT_TIME" not in header or not text.endswith("\n"):
        raise SlurmUnclearError("squeue -O PreemptTime", f"it begins with {text[:80]!r}")
    return {row[0]: at_s for row in rows if len(row) == 2 and (at_s := time_of(row[1])) is not None}
