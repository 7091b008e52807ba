"""A trainer as the daemon knows it: what its owner wants, and how it has been getting on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np

from freetrain.core.fragment import End, Fragment
from freetrain.core.throughput import Curve, rates
from freetrain.core.throughput_fit import Observation, fit_throughput
from freetrain.core.trainer import Trainer

_PRIOR_LOSS = 0.03
"""Until a trainer was seen at two sizes, each node is taken to cost the others this share of their speed."""

_TINY = 1e-300
"""Stands for a rate of 0, so that one can be divided by it."""

_STEP = 1.25
"""Ratio of the sizes at which a long curve keeps its points."""


PAUSE_NOTE = "paused after"
"""How the note of a paused trainer begins."""

UNKNOWN_END = "its end cannot be told: freetrain reads no progress of it, so its other tasks go on"
"""The note of a trainer of which tasks have completed, and that shows no sign of the runtime."""


class TrainerState(StrEnum):
    """What the daemon does with a trainer."""

    ACTIVE = "active"
    """It competes for nodes."""
    RESTING = "resting"
    """Its fragments failed; it competes again after a while."""
    PAUSED = "paused"
    """Its fragments failed too often; its owner must look."""
    REFUSED = "refused"
    """Its tag says something that cannot be."""
    COMPLETE = "complete"
    """It is done; what is left of it is cancelled."""


@dataclass(frozen=True, slots=True)
class Misread:
    """Lines of a trainer's progress that were not believed.

    Attributes:
        lines: how many.
        at_byte: where the first of them begins.
        why: the end of a sentence that begins with *because*.
    """

    lines: int = 0
    at_byte: int = 0
    why: str = ""

    def and_then(self, later: Misread) -> Misread:
        """These, and those that were read after them."""
        return replace(self, lines=self.lines + later.lines) if self.lines else later

    def __str__(self) -> str:
        """A sentence for the trainer's owner; empty: all was understood."""
        if self.lines <= 1:
            said = f"a line of its progress was not understood: at byte {self.at_byte}, because {self.why}"
            return said if self.lines else ""
        return (
            f"{self.lines} lines of its progress were not understood: "
            f"the first, at byte {self.at_byte}, because {self.why}"
        )


NOTHING_MISREAD = Misread()


@dataclass(frozen=True, slots=True)
class LentTrainer:
    """One array job with a tag.

    Attributes:
        id: of the array job.
        owner: who submitted it.
        tag: its comment.
        state: what is done with it.
        note: a sentence for its owner.
        first_seen_s: when freetrain met it.
        failures_in_a_row: fragments that failed since one last did not.
        rests_until_s: not before then it competes again.
        samples_done: as its progress says.
        progress_bytes: how far its progress has been read.
        observations: what it was seen to do.
        misread: lines of its progress that were not believed since the daemon began.
        fault: what is wrong with its files, its curve or its submission, for its owner; empty: nothing.
    """

    id: str
    owner: str
    tag: str
    state: TrainerState
    first_seen_s: float
    note: str = ""
    failures_in_a_row: int = 0
    rests_until_s: float = 0.0
    samples_done: float = 0.0
    progress_bytes: int = 0
    observations: tuple[Observation, ...] = ()
    misread: Misread = NOTHING_MISREAD
    fault: str = ""


@dataclass(frozen=True, slots=True)
class Patience:
    """How failures are answered.

    Attributes:
        back_off_s: rest after the first failure; doubles with each more.
        failures_to_pause: failures in a row after which the owner must look.
    """

    back_off_s: float
    failures_to_pause: int


def after_ends(trainer: LentTrainer, ended: Iterable[Fragment], patience: Patience, now_s: float) -> LentTrainer:
    """The trainer after these fragments ended: only failures of its own program count against it."""
    ended = list(ended)
    failures = trainer.failures_in_a_row
    if any(fragment.end is End.FAILED for fragment in ended):
        failures += 1  # however many fragments went down together: it is one program
    elif any(_ran_s(fragment, now_s) > patience.back_off_s for fragment in ended):
        failures = 0
    if failures == trainer.failures_in_a_row or trainer.state in (TrainerState.REFUSED, TrainerState.COMPLETE):
        return trainer
    if failures == 0:
        return replace(trainer, failures_in_a_row=0)
    if failures >= patience.failures_to_pause:
        note = f"{PAUSE_NOTE} {failures} failures in a row: see its output, then run freetrain resume {trainer.id}"
        return replace(trainer, failures_in_a_row=failures, state=TrainerState.PAUSED, note=note)
    rest_s = patience.back_off_s * 2 ** (failures - 1)
    return replace(
        trainer,
        failures_in_a_row=failures,
        state=TrainerState.RESTING,
        rests_until_s=now_s + rest_s,
        note=f"{failures} failures in a row; rests for {rest_s:.0f} s",
    )


def _ran_s(fragment: Fragment, now_s: float) -> float:
    return 0.0 if fragment.started_s is None else (fragment.ended_s or now_s) - fragment.started_s


def awake(trainer: LentTrainer, now_s: float) -> LentTrainer:
    """The trainer, active again if its rest is over."""
    if trainer.state is TrainerState.RESTING and now_s >= trainer.rests_until_s:
        return replace(trainer, state=TrainerState.ACTIVE, note="")
    return trainer


def resumed(trainer: LentTrainer) -> LentTrainer:
    """The trainer, its failures forgotten: its owner has seen to them."""
    if trainer.state not in (TrainerState.PAUSED, TrainerState.RESTING):
        return replace(trainer, failures_in_a_row=0)
    return replace(trainer, state=TrainerState.ACTIVE, note="", failures_in_a_row=0, rests_until_s=0.0)


def is_complete(
    trainer: LentTrainer,
    fragments: Sequence[Fragment],
    last: Fragment | None,
    finished: bool | None,
    target: float,
    nothing_unrun: bool,
) -> bool:
    """Whether the training is done.

    That its fragments have ended says so only where the training cannot say it itself, and where nothing would
    be lost: the other tasks of an array that is not an elastic training have work of their own.

    Args:
        trainer: which.
        fragments: those that have not ended.
        last: the one that ended last.
        finished: what its directory says; None: it cannot be read.
        target: samples after which it is complete.
        nothing_unrun: whether nothing is left that could still run.
    """
    if finished is not None or trainer.samples_done >= target:
        return bool(finished) or trainer.samples_done >= target
    return nothing_unrun and not fragments and last is not None and last.end is End.COMPLETED


def is_finishing(fragments: Sequence[Fragment], last: Fragment | None) -> bool:
    """Whether one fragment ended well since the others started: they will follow, and nobody should join."""
    if not fragments or last is None or last.end is not End.COMPLETED or last.ended_s is None:
        return False
    return all(one.started_s is not None and one.started_s < last.ended_s for one in fragments)


def prior_curve(most_nodes: int) -> Curve:
    """What is assumed of a trainer that was never measured, in samples/s of one node."""
    return tuple((nodes, _prior_rate(nodes)) for nodes in range(1, most_nodes + 1))


def _prior_rate(nodes: int) -> float:
    return nodes / (1 + _PRIOR_LOSS * (nodes - 1))


def thinned(curve: Curve) -> Curve:
    """The curve by a few of its points: every piece between two points costs the solver, and it bends slowly."""
    kept = [curve[0]]
    for point in curve[1:]:
        if point[0] >= _STEP * kept[-1][0] or point == curve[-1]:
            kept.append(point)
    return tuple(kept)


def believed(curve: Curve) -> Curve:
    """The curve, nowhere faster than linear from its first point: more is never believed, whoever says it."""
    nodes, rate = next(point for point in curve if point[0] > 0)
    return tuple((size, min(each, size * (rate / nodes))) for size, each in curve)


def curve_of(trainer: LentTrainer, given: Curve, most_nodes: int) -> Curve:
    """Its throughput: as it was seen, where it was; elsewhere as its owner says, as fitted, or as assumed.

    What the owner says is believed up to linear scaling; as soon as anything was seen it gives the shape alone.
    One measured size sets the scale.
    """
    sizes = {observation.nodes for observation in trainer.observations}
    if given:
        shape = believed(given)
        return believed(_scaled_to(_seen_rates(trainer, most_nodes), shape)) if sizes else shape
    if len(sizes) > 1:
        return believed(thinned(fit_throughput(trainer.observations, most_nodes).curve))
    prior = thinned(prior_curve(max(most_nodes, 1)))
    if not sizes:
        return prior
    seen = fit_throughput(trainer.observations, most_nodes).curve[0]
    scale = seen[1] / _prior_rate(seen[0])
    return tuple((nodes, rate * scale) for nodes, rate in prior)


def _seen_rates(trainer: LentTrainer, most_nodes: int) -> Mapping[int, float]:
    """Size at which it was seen → samples/s."""
    sizes = {observation.nodes for observation in trainer.observations}
    fitted = fit_throughput(trainer.observations, max(most_nodes, *sizes, 1)).curve
    return {nodes: rate for nodes, rate in fitted if nodes in sizes}


def _scaled_to(seen: Mapping[int, float], shape: Curve) -> Curve:
    """The shape through what was seen: in between and beyond, scaled as at the nearest sizes that were seen."""
    sizes = sorted(seen)
    said = rates(shape, sizes[-1])
    ratios = [seen[size] / max(float(said[size]), _TINY) for size in sizes]
    points = {nodes: rate * float(np.interp(nodes, sizes, ratios)) for nodes, rate in shape if nodes > 0}
    return tuple(sorted((points | dict(seen)).items()))


def as_trainer(
    trainer: LentTrainer,
    curve: Curve,
    min_nodes: int,
    max_nodes: int,
    costs_s: tuple[float, float, float],
    weight: float,
) -> Trainer:
    """The trainer as a policy sees it; costs are those of growing, shrinking and starting."""
    grow_s, shrink_s, start_s = costs_s
    return Trainer(
        id=trainer.id,
        throughput=curve,
        min_nodes=min_nodes,
        max_nodes=max(max_nodes, min_nodes),
        scale_up_s=grow_s,
        scale_down_s=shrink_s,
        start_s=start_s,
        weight=weight,
        submitted_s=trainer.first_seen_s,
    )
