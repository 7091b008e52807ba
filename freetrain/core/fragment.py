"""Fragments: preemptible Slurm jobs, each of which lends a node, or a part of it, to a trainer; and lent time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from freetrain.core.grouping import grouped
from freetrain.core.place import lent_place
from freetrain.core.quick_enum import quick


@quick
class FragmentState(StrEnum):
    """State of a fragment, as far as it is known."""

    ASKED = "asked"
    """Its start was ordered from Slurm."""
    RUNNING = "running"
    """It runs on its node."""
    LEAVING = "leaving"
    """Its end was ordered from Slurm."""
    ENDING = "ending"
    """Slurm clears up after it without an order to end it: why it ends is not known yet."""
    LOST = "lost"
    """Slurm shows it no more and cannot say yet what became of it: unknown is not gone."""
    ENDED = "ended"
    """Its node is not its any more; ``end`` says why."""


@quick
class End(StrEnum):
    """Reason why a fragment ended."""

    COMPLETED = "completed"
    """Its program ended by itself, well: the training is complete."""
    PREEMPTED = "preempted"
    """Slurm took the node for one of the site's jobs."""
    RELEASED = "released"
    """freetrain took the node back, or it was requeued by hand."""
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
    """A node, or a part of it, lent to one trainer, from the order to the end.

    A job of several nodes, a moldable task, is as many fragments: they begin and end together.

    Attributes:
        id: freetrain's own number of it; 0: not stored yet.
        share: part of its node that it has, the largest of its parts of the CPUs, the memory and the GPUs.
        parts: its parts of these three; empty: unknown.
        job: Slurm's id: of the array task (``123_4``) or of the job.
        started_s: time at which it began to run, as Slurm says.
        ended_s: time at which it ended, as Slurm says.
        decision: decision that lent it, ``run:number``; None: found running, lent by no daemon of this database.
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
    share: float = 1.0
    parts: tuple[float, ...] = ()

    @property
    def place(self) -> str:
        """The name of the part of its node that it has."""
        return lent_place(self.node, self.job)

    def waits_since_before(self, time_s: float) -> bool:
        """Whether its start was ordered before then and has not happened."""
        return self.state is FragmentState.ASKED and self.asked_s < time_s

    @property
    def goes_on(self) -> bool:
        """Whether it has its node, or is to have it: its end was not ordered, and has not begun."""
        return self.state is FragmentState.RUNNING or self.state is FragmentState.ASKED

    @property
    def is_leaving(self) -> bool:
        """Whether it has begun to end, and its node is not free yet."""
        return self.state is FragmentState.LEAVING or self.state is FragmentState.ENDING

    @property
    def holds_node(self) -> bool:
        """Whether its node is spoken for."""
        return self.state is not FragmentState.ENDED


def by_trainer(fragments: Iterable[Fragment]) -> Mapping[str, tuple[Fragment, ...]]:
    """Trainer → its fragments, in their order."""
    found = grouped((fragment.trainer, fragment) for fragment in fragments)
    return {trainer: tuple(its) for trainer, its in found.items()}


def jobs_of(fragments: Iterable[Fragment]) -> list[str]:
    """The jobs that these are, each once, in the order of the fragments."""
    return list(dict.fromkeys(fragment.job for fragment in fragments))


@dataclass(frozen=True, slots=True)
class LentTime:
    """Lent time of a range of time.

    Attributes:
        lent_s: node-seconds that were lent.
        lost_to_starts_s: node-seconds of these that were lost when nodes came, the first ones or more.
        lost_to_ends_s: node-seconds lost when nodes went and others stayed: evicted, released or failed.
    """

    lent_s: float = 0.0
    lost_to_starts_s: float = 0.0
    lost_to_ends_s: float = 0.0
    starts: int = 0
    evictions: int = 0

    @property
    def useful_s(self) -> float:
        """Node-seconds that were not lost."""
        return self.lent_s - self.lost_to_starts_s - self.lost_to_ends_s

    def __add__(self, other: LentTime) -> LentTime:
        return LentTime(
            self.lent_s + other.lent_s,
            self.lost_to_starts_s + other.lost_to_starts_s,
            self.lost_to_ends_s + other.lost_to_ends_s,
            self.starts + other.starts,
            self.evictions + other.evictions,
        )
