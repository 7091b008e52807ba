"""How jobs ended: runs of accounting, who cancelled, and whom Slurm asked to leave. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping

from freetrain.core.job import JobRun
from freetrain.slurm.errors import SlurmUnclearError
from freetrain.slurm.parsing.words import time_of
from freetrain.slurm.queries import RUN_FIELDS
from freetrain.slurm.states import job_state


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
    """Who cancelled, as numbers of users, from what ``ask_who_cancelled`` printed."""
    return frozenset(map(int, re.findall(r"^CANCELLED by ([0-9]{1,10})\b", text, re.MULTILINE)))


def parse_preemptions(text: str) -> Mapping[str, float]:
    """Job → when it was asked to leave, of those that were, from what ``ask_preemptions`` printed.

    Raises:
        SlurmUnclearError: it is not such a table; a preempted fragment would be taken for one that has completed.
    """
    header, *rows = [line.split() for line in text.splitlines()] or [[]]
    if "PREEMPT_TIME" not in header or not text.endswith("\n"):
        raise SlurmUnclearError("squeue -O PreemptTime", f"it begins with {text[:80]!r}")
    return {row[0]: at_s for row in rows if len(row) == 2 and (at_s := time_of(row[1])) is not None}
