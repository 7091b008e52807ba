"""What of a look somebody has to hear of, although nobody asks: the site's admins, or a training's owner. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from freetrain.core.known_trainer import TrainerState
from freetrain.daemon.reports.status import LookStatus, TrainerStatus
from freetrain.lending.memory import Memory
from freetrain.slurm.parsing import fold_nodes


class Kind(StrEnum):
    """What it is about; each has its own pace."""

    HARM = "harm"
    """A job of the site's had to wait for fragments."""
    PAUSE = "pause"
    """Nothing is lent any more, or nothing more."""
    FAILURE = "failure"
    """A training, a node or Slurm fails."""
    REGISTERED = "registered"
    """A training is known from now on; for its owner, as what follows."""
    FINISHED = "finished"
    """A training is complete."""
    PAUSED = "paused"
    """A training failed too often; its owner must look."""

    @property
    def is_for_owners(self) -> bool:
        """Whether owners of trainings hear of it, each of his own; else the site's admins do."""
        return self in (Kind.REGISTERED, Kind.FINISHED, Kind.PAUSED)


@dataclass(frozen=True, slots=True)
class News:
    """One thing that somebody has to hear of.

    Attributes:
        kind: what it is about.
        what: a sentence without its end.
        owner: who hears of it; empty: the site's admins.
    """

    kind: Kind
    what: str
    owner: str = ""


@dataclass(frozen=True, slots=True)
class Heard:
    """What has been told, or was so when the daemon began.

    Attributes:
        lending_stopped: whether nothing is lent, or nothing more.
        trainings: those that are known, each with its state.
    """

    lending_stopped: bool
    trainings: Mapping[str, str]


def heard_after(look: LookStatus) -> Heard:
    """What need not be told again after this look."""
    return Heard(bool(look.stopped_by or look.paused_by), {one.id: one.state for one in look.trainers})


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
        if one.state != (state := before.trainings.get(one.id)):
            yield from _news_of_training(one, state)


def _news_of_training(one: TrainerStatus, before: str | None) -> Iterator[News]:
    """What its change of state means; before it was None where it was not known."""
    if before is None and one.state in (TrainerState.ACTIVE, TrainerState.RESTING):
        yield News(
            Kind.REGISTERED, f"training {one.id} is registered: it may be lent idle nodes from now on", one.owner
        )
    if one.state == TrainerState.COMPLETE and before is not None:
        yield News(Kind.FINISHED, f"training {one.id} is complete", one.owner)
    if one.state == TrainerState.PAUSED:
        yield News(Kind.FAILURE, f"training {one.id} of {one.owner} is {one.note}")
        yield News(Kind.PAUSED, f"training {one.id} is {one.note}", one.owner)
