"""The mark of a daemon that lends: a held job where its fragments run, by which another daemon finds it. Pure.

A job is the one thing that an account without power over Slurm can leave there, that every version shows to
everybody, that survives slurmctld's restart and needs no accounting. It never runs. Its comment says whose it is,
and when it was last renewed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from freetrain.core.fragment_queue import FragmentQueue
from freetrain.core.job import Job, JobState

MARK_NAME = "freetrain-daemon"
RENEW_EVERY_S = 60.0
FRESH_S = 200.0
"""For so long after it was renewed a mark stands for a daemon that runs."""

_COMMENT = re.compile(r"freetrain-daemon:host=([^,]+),pid=(\d{1,18}),at=(\d{1,18}),state=(.+)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Holder:
    """Who lends.

    Attributes:
        host: on which its daemon runs.
        process: the daemon's number there.
        directory: its state directory.
    """

    host: str
    process: int
    directory: str

    def comment(self, now_s: float) -> str:
        """What its mark says."""
        return f"freetrain-daemon:host={self.host},pid={self.process},at={now_s:.0f},state={self.directory}"

    def is_successor_of(self, other: Holder) -> bool:
        """Whether it has taken over the other's directory, whose lock says that the other has ended."""
        return (self.host, self.directory) == (other.host, other.directory)


@dataclass(frozen=True, slots=True)
class Mark:
    """A mark.

    Attributes:
        job: Slurm's id of it.
        user: whose job it is.
        holder: what it says.
        renewed_s: when, UTC epoch seconds.
    """

    job: str
    user: str
    holder: Holder
    renewed_s: float

    def is_fresh(self, now_s: float) -> bool:
        """Whether its daemon is to be taken for alive; one from the future is nobody's."""
        return abs(now_s - self.renewed_s) < FRESH_S


def find_marks(jobs: Iterable[Job], queue: FragmentQueue) -> list[Mark]:
    """All marks in a queue, the oldest first."""
    found = []
    for job in jobs:
        match = _COMMENT.fullmatch(job.comment)
        if match and queue.has(job) and job.state is JobState.PENDING and job.id.isdecimal():
            holder = Holder(match[1], int(match[2]), match[4])
            found.append(Mark(job.id, job.user, holder, float(match[3])))
    return sorted(found, key=lambda mark: int(mark.job))
