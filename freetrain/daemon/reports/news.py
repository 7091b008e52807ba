"""What of a look somebody has to hear of, although nobody asks: the site's admins, or a training's owner. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from freetrain.core.harm import Harm
from freetrain.core.known_trainer import TrainerState
from freetrain.daemon.departures import Departure
from freetrain.daemon.reports.status import LookStatus, TrainerStatus
from freetrain.lending.memory import Memory
from freetrain.slurm.parsing import fold_nodes


class NewsKind(StrEnum):
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
    """A training is complete, or has left Slurm while no daemon looked."""
    PAUSED = "paused"
    """A training failed too often; its owner must look."""
    LOSS = "loss"
    """Work of a filler's tasks was lost, since a freezer could not save it."""

    @property
    def is_for_owners(self) -> bool:
        """Whether owners of trainings hear of it, each of their own; else the site's admins do."""
        return self in (NewsKind.REGISTERED, NewsKind.FINISHED, NewsKind.PAUSED, NewsKind.LOSS)


@dataclass(frozen=True, slots=True)
class News:
    """One thing that somebody has to hear of.

    Attributes:
        kind: what it is about.
        what: a sentence without its end.
        owner: who hears of it; empty: the site's admins.
    """

    kind: NewsKind
    what: str
    owner: str = ""


Noticed = Mapping[str, str]
"""What somebody may have to hear of → how it is; only what differs from how it was is news."""

_LENDING, _TRAINING, _LOSS = "lending", "training ", "loss of "


def noticed_after(look: LookStatus, memory: Memory) -> Noticed:
    """How everything is after this look."""
    return {
        _LENDING: "stopped" if look.stopped_by or look.paused_by else "goes on",
        **{f"{_TRAINING}{trainer.id}": trainer.state for trainer in look.trainers},
        **{f"{_LOSS}{trainer.id}": f"{trainer.lost_s:.0f}" for trainer in look.trainers if trainer.lost_s},
        **{f"node {lost.node}": lost.fragment for lost in memory.lost.all},
        **{_about(harm): "" for harm in memory.meter.harms},
    }


def trainings_in(noticed: Noticed) -> Mapping[str, str]:
    """Training → its state."""
    return {
        about.removeprefix(_TRAINING): state for about, state in noticed.items() if about.startswith(_TRAINING)
    }


def of_trainings(states: Mapping[str, str]) -> Noticed:
    """The states of trainings, as they are noticed."""
    return {f"{_TRAINING}{id_}": state for id_, state in states.items()}


def _about(harm: Harm) -> str:
    return f"job {harm.job} started at {harm.started_s:.0f}"


def news_of(look: LookStatus, memory: Memory, before: Noticed, limit_s: float) -> Iterator[News]:
    """What is new.

    Args:
        look: what it came to.
        memory: what is remembered after it.
        before: what has been noticed, by this daemon or one before it.
        limit_s: delays up to this are not worth it.
    """
    for harm in memory.meter.harms:
        if _about(harm) not in before and harm.delay_s > limit_s:
            jobs = ", ".join(harm.fragments)
            yield News(
                NewsKind.HARM, f"job {harm.job} started {harm.delay_s:.0f} s later because of fragments {jobs}"
            )
    for wait in memory.blocked.new:
        nodes = fold_nodes(wait.nodes)
        yield News(
            NewsKind.HARM, f"job {wait.job} of {wait.partition} would wait for the end of fragments on {nodes}"
        )
    if (look.stopped_by or look.paused_by) and before.get(_LENDING) != "stopped":
        what = (
            f"nothing is lent: {look.stopped_by}" if look.stopped_by else f"nothing more is lent: {look.paused_by}"
        )
        yield News(NewsKind.PAUSE, what)
    for lost in memory.lost.all:
        if before.get(f"node {lost.node}") == lost.fragment:
            continue
        yield News(
            NewsKind.FAILURE,
            f"node {lost.node} is out of service ({lost.state_text}) since fragment {lost.fragment} could not be "
            "ended or cleared up after",
        )
    for node, owners in memory.suspects.new.items():
        whose = ", ".join(sorted(owners))
        yield News(
            NewsKind.FAILURE, f"programs of {whose}, which work on other nodes, failed at once on node {node}"
        )
    for trainer in look.trainers:
        if trainer.state != (state := before.get(f"{_TRAINING}{trainer.id}")):
            yield from _news_of_training(trainer, state)
        yield from _news_of_losses(trainer, before)


def news_of_departure(one: Departure) -> Iterator[News]:
    """What its owner hears of a training that left Slurm unseen; that they cancelled it they know."""
    if not one.is_cancelled:
        what = f"training {one.id} has left Slurm while no daemon looked; its last fragment: {one.end}"
        yield News(NewsKind.FINISHED, what, one.owner)


def _news_of_losses(trainer: TrainerStatus, before: Noticed) -> Iterator[News]:
    """What its owner hears when more of its tasks' work is lost."""
    if trainer.lost_s and before.get(f"{_LOSS}{trainer.id}") != f"{trainer.lost_s:.0f}":
        yield News(NewsKind.LOSS, f"of filler {trainer.id} {trainer.fault}", trainer.owner)


def _news_of_training(one: TrainerStatus, before: str | None) -> Iterator[News]:
    """What its change of state means; before it was None where it was not known."""
    if before is None and one.state in (TrainerState.ACTIVE, TrainerState.RESTING):
        yield News(
            NewsKind.REGISTERED,
            f"training {one.id} is registered: it may be lent idle nodes from now on",
            one.owner,
        )
    if one.state == TrainerState.COMPLETE and before is not None:
        yield News(NewsKind.FINISHED, f"training {one.id} is complete", one.owner)
    if one.state == TrainerState.PAUSED:
        yield News(NewsKind.FAILURE, f"training {one.id} of {one.owner} is {one.note}")
        yield News(NewsKind.PAUSED, f"training {one.id} is {one.note}", one.owner)
