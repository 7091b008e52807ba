"""Fragments: preemptible Slurm jobs, each of which lends one node to a trainer."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class FragmentState(StrEnum):
    """How far a fragment is, as far as is known."""

    ASKED = "asked"
    """Slurm was told to start it."""
    RUNNING = "running"
    """It runs on its node."""
    LEAVING = "leaving"
    """Slurm was told to end it."""
    ENDING = "ending"
    """Slurm clears up after it, though it was not told to end it: why it ends is not known yet."""
    LOST = "lost"
    """Slurm shows it no more and cannot say yet what became of it: unknown is not gone."""
    ENDED = "ended"
    """Its node is not its any more; ``end`` says why."""


class End(StrEnum):
    """Why a fragment ended."""

    COMPLETED = "completed"
    """Its program ended by itself, well: the training is complete."""
    PREEMPTED = "preempted"
    """Slurm took the node for one of the site's jobs."""
    RELEASED = "released"
    """freetrain took the node back, or whoever requeued it by hand."""
    TIMED_OUT = "timed out"
    """Its time limit was reached."""
    NODE_FAILED = "node failed"
    """Its node went down."""
    FAILED = "failed"
    """Its program ended with an error."""
    CANCELLED = "cancelled"
    """Its owner or an admin cancelled it."""
    NEVER_STARTED = "never started"
    """It was asked for and called off before it ran."""
    UNKNOWN = "unknown"
    """Slurm forgot it before it could be asked."""


@dataclass(frozen=True, slots=True)
class Fragment:
    """One node lent to one trainer, from the asking to the end.

    Attributes:
        id: freetrain's own number of it; 0: not stored yet.
        job: Slurm's id: of the array task (``123_4``) or of the job.
        trainer: who has it.
        node: what it has.
        state: how far it is.
        asked_s: when Slurm was told to start it, UTC epoch seconds.
        limit_s: its time limit in seconds.
        started_s: when it began to run, as Slurm says.
        ended_s: when it ended, as Slurm says.
        end: why it ended.
        decision: the one that lent it, as ``run:number``; None: found running, not lent by this database's daemon.
    """

    job: str
    trainer: str
    node: str
    state: FragmentState
    asked_s: float
    limit_s: float
    started_s: float | None = None
    ended_s: float | None = None
    end: End | None = None
    decision: str | None = None
    id: int = 0

    def waits_since_before(self, time_s: float) -> bool:
        """Whether Slurm was told to start it before then, and has not."""
        return self.state is FragmentState.ASKED and self.asked_s < time_s

    @property
    def goes_on(self) -> bool:
        """Whether it has its node, or is to have it: nobody ends it, and it has not begun to end."""
        return self.state is FragmentState.RUNNING or self.state is FragmentState.ASKED

    @property
    def holds_node(self) -> bool:
        """Whether its node is spoken for."""
        return self.state is not FragmentState.ENDED
