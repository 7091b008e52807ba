"""What of a look somebody has to hear of, although nobody asks: harm, a stop of lending, failures. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from freetrain.core.known_trainer import TrainerState
from freetrain.daemon.reports.status import LookStatus
from freetrain.lending.judge import Memory
from freetrain.slurm.parsing import fold_nodes


class Kind(StrEnum):
    """What it is about; each has its own pace."""

    HARM = "harm"
    """A job of the site's had to wait for fragments."""
    PAUSE = "pause"
    """Nothing is lent any more, or nothing more."""
    FAILURE = "failure"
    """A training, a node or Slurm fails."""


@dataclass(frozen=True, slots=True)
class News:
    """One thing that somebody has to hear of.

    Attributes:
        kind: what it is about.
        what: a sentence without its end.
    """

    kind: Kind
    what: str


@dataclass(frozen=True, slots=True)
class Heard:
    """What has been told, or was so when the daemon began.

    Attributes:
        lending_stopped: whether nothing is lent, or nothing more.
        paused: trainings that are paused.
    """

    lending_stopped: bool
    paused: frozenset[str]


def heard_after(look: LookStatus) -> Heard:
    """What need not be told again after this look."""
    paused = frozenset(one.id for one in look.trainers if one.state == TrainerState.PAUSED)
    return Heard(bool(look.stopped_by or look.paused_by), paused)


def news_of(look: LookStatus, memory: Memory, before: Heard, limit_s: float) -> Iterator[News]:
    """What is new.

    Args:
        look: what it came to.
        memory: what is remembered after it.
        before: what has been told.
        limit_s: delays up to this are not worth it.
    """
    for harm in memory.meter.new:
        if harm.delay_s > limit_s:
            jobs = ", ".join(harm.fragments)
            yield News(Kind.HARM, f"job {harm.job} started {harm.delay_s:.0f} s later because of fragments {jobs}")
    for wait in memory.blocked.new:
        nodes = fold_nodes(wait.nodes)
        yield News(Kind.HARM, f"job {wait.job} of {wait.partition} would wait for the end of fragments on {nodes}")
    if (look.stopped_by or look.paused_by) and not before.lending_stopped:
        what = (
            f"nothing is lent: {look.stopped_by}" if look.stopped_by else f"nothing more is lent: {look.paused_by}"
        )
        yield News(Kind.PAUSE, what)
    for lost in memory.lost.new:
        yield News(
            Kind.FAILURE,
            f"node {lost.node} is out of service ({lost.said}) since fragment {lost.fragment} could not be ended "
            "or cleared up after",
        )
    for one in look.trainers:
        if one.state == TrainerState.PAUSED and one.id not in before.paused:
            yield News(Kind.FAILURE, f"training {one.id} of {one.owner} is {one.note}")
