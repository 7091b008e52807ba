"""The daemon's record of a trainer: what its owner wants, and how it has been getting on.

Its curve is what was seen of it, and what its owner says where nothing was.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np

from freetrain.core.observed import NOTHING_SEEN, SeenCosts
from freetrain.core.throughput import Curve, Observation, fit_throughput, rates

PAUSE_NOTE = "paused after"
"""Begin of the note of a paused trainer."""

UNKNOWN_END = "its end is unknown: freetrain reads no progress of it, so its other tasks go on"
"""The note of a trainer of which tasks have completed, and that shows no sign of the runtime."""


class TrainerState(StrEnum):
    """State of a trainer in the daemon."""

    ACTIVE = "active"
    """It competes for nodes."""
    RESTING = "resting"
    """Its fragments failed; it competes again after a while."""
    PAUSED = "paused"
    """Its fragments failed too often; its owner must look."""
    REFUSED = "refused"
    """Its tag is invalid."""
    COMPLETE = "complete"
    """It is done; what is left of it is cancelled."""


@dataclass(frozen=True, slots=True)
class Misread:
    """Lines of a trainer's progress that were not believed, and where and (*because* …) why the first was not."""

    lines: int = 0
    at_byte: int = 0
    why: str = ""

    def and_then(self, later: Misread) -> Misread:
        """These, and those that were read after them."""
        return replace(self, lines=self.lines + later.lines) if self.lines else later

    def __str__(self) -> str:
        if self.lines <= 1:
            message = f"a line of its progress was not understood: at byte {self.at_byte}, because {self.why}"
            return message if self.lines else ""
        return (
            f"{self.lines} lines of its progress were not understood: "
            f"the first, at byte {self.at_byte}, because {self.why}"
        )


NOTHING_MISREAD = Misread()


@dataclass(frozen=True, slots=True)
class Losses:
    """Work of a trainer's tasks that a freezer could not save when nodes were taken back.

    Attributes:
        lost_s: seconds of those runs together.
        last_s: time at which it was noticed last, UTC epoch seconds.
        why: reason of the last time, a clause.
    """

    count: int = 0
    lost_s: float = 0.0
    last_s: float = 0.0
    why: str = ""

    def and_then(self, later: Losses) -> Losses:
        """These, and those that were read after them."""
        if not later.count:
            return self
        return replace(later, count=self.count + later.count, lost_s=self.lost_s + later.lost_s)

    def __str__(self) -> str:
        if not self.count:
            return ""
        return f"{self.count} runs of its tasks, {self.lost_s:.0f} s, were lost: the last time {self.why}"


NOTHING_LOST = Losses()


@dataclass(frozen=True, slots=True)
class KnownTrainer:
    """An array job with a tag.

    Attributes:
        id: Slurm's id of the array job.
        tag: the job's comment.
        failures_in_a_row: fragments that failed since one last did not.
        rests_until_s: time before which it does not compete again, UTC epoch seconds.
        progress_bytes: bytes of its progress that have been read.
        misread: lines of its progress that were not believed since the daemon began.
        losses: work of its tasks that could not be saved since the daemon began.
        fault: fault of its files, its curve or its submission, for its owner; empty: none.
        account: account that is charged for it; empty: Slurm did not name one.
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
    costs: SeenCosts = NOTHING_SEEN
    misread: Misread = NOTHING_MISREAD
    losses: Losses = NOTHING_LOST
    fault: str = ""
    account: str = ""


_PRIOR_LOSS = 0.03
"""Until a trainer was seen at two sizes, each node is taken to cost the others this share of their speed."""

_TINY = 1e-300
"""Stands for a rate of 0, so that one can be divided by it."""

_STEP = 1.25
"""Ratio of the sizes at which a long curve keeps its points."""


def linear_curve(most_nodes: int) -> Curve:
    """Linear scaling: N nodes do as much as N times one."""
    return ((1, 1.0), (most_nodes, float(most_nodes))) if most_nodes > 1 else ((1, 1.0),)


def prior_curve(most_nodes: int) -> Curve:
    """The assumed rate of a trainer that was never measured, in samples/s of one node."""
    return tuple((nodes, _prior_rate(nodes)) for nodes in range(1, most_nodes + 1))


def _prior_rate(nodes: int) -> float:
    return nodes / (1 + _PRIOR_LOSS * (nodes - 1))


def thinned(curve: Curve) -> Curve:
    """The curve by a few of its points: every piece between two points costs the solver, and it bends slowly."""
    # The first and the last point stay: they decide where the curve begins and how far it reaches.
    kept = [curve[0]]
    for point in curve[1:]:
        if point[0] >= _STEP * kept[-1][0] or point == curve[-1]:
            kept.append(point)
    return tuple(kept)


def believed(curve: Curve) -> Curve:
    """The curve, nowhere faster than linear from its first point: more is never believed."""
    nodes, rate = next(point for point in curve if point[0] > 0)
    return tuple((size, min(speed, size * (rate / nodes))) for size, speed in curve)


def curve_of(trainer: KnownTrainer, given: Curve, most_nodes: int) -> Curve:
    """Throughput of a trainer: as seen, where it was; elsewhere as its owner says, as fitted, or as assumed.

    What the owner says is believed up to linear scaling; as soon as anything was seen it gives the shape alone.
    One measured size sets the scale.
    """
    sizes = {observation.nodes for observation in trainer.observations}
    if given:
        shape = believed(given)
        if not sizes:
            return shape
        # It may have been seen at sizes that it may not have any more.
        fitted = fit_throughput(trainer.observations, max(most_nodes, *sizes, 1)).curve
        return believed(_scaled_to({nodes: rate for nodes, rate in fitted if nodes in sizes}, shape))
    if len(sizes) > 1:
        return believed(thinned(fit_throughput(trainer.observations, most_nodes).curve))
    prior = thinned(prior_curve(max(most_nodes, 1)))
    if not sizes:
        return prior
    seen = fit_throughput(trainer.observations, most_nodes).curve[0]
    scale = seen[1] / _prior_rate(seen[0])
    return tuple((nodes, rate * scale) for nodes, rate in prior)


def _scaled_to(seen: Mapping[int, float], shape: Curve) -> Curve:
    """The shape through what was seen: in between and beyond, scaled as at the nearest sizes that were seen."""
    sizes = sorted(seen)
    claimed = rates(shape, sizes[-1])
    ratios = [seen[size] / max(float(claimed[size]), _TINY) for size in sizes]
    points = {nodes: rate * float(np.interp(nodes, sizes, ratios)) for nodes, rate in shape if nodes > 0}
    return tuple(sorted((points | dict(seen)).items()))
