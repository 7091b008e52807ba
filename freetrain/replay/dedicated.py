"""The same trainers on a machine of their own: what the paper's headline figure compares with."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from math import ceil, floor, inf

import numpy as np

from freetrain.core.objectives import worth_per_s
from freetrain.core.trainer import Trainer
from freetrain.policies.aiming import AimedSizes
from freetrain.policies.equal_share import equal_sizes
from freetrain.replay.admission import Admission

_NEGLIGIBLE_S = 1e-6


@dataclass(slots=True)
class DedicatedRecord:
    """What a dedicated machine trains.

    Attributes:
        nodes: how many nodes it has, a fraction of a node included.
        samples: samples of all trainers in the window.
        work: the same in the objective's unit.
        at_s: instants of arrivals and completions, and the window's end.
        samples_at: samples until then.
    """

    nodes: float
    samples: float = 0.0
    work: float = 0.0
    at_s: list[float] = field(default_factory=list)
    samples_at: list[float] = field(default_factory=list)


class _Training:
    """A trainer with its progress; its rates are looked up very often."""

    def __init__(self, trainer: Trainer, objective: str) -> None:
        self.trainer = trainer
        self.limits = trainer.min_nodes, trainer.most_nodes if trainer.can_run else 0
        self.rates = [trainer.rate(nodes) for nodes in range(trainer.most_nodes + 1)]
        self.worth = worth_per_s(trainer, objective).tolist()
        self.samples = 0.0
        self.rate = self.worth_per_s = 0.0

    @property
    def left_s(self) -> float:
        """Seconds until its target."""
        if self.trainer.target_samples is None or self.rate == 0:
            return inf
        return (self.trainer.target_samples - self.samples) / self.rate


def train_dedicated(
    trainers: Iterable[Trainer], nodes: float, from_s: float, until_s: float, max_running: int, objective: str
) -> DedicatedRecord:
    """Run the trainers on ``nodes`` nodes that never change, in equal shares, nothing lost to rescaling.

    A fraction of a node counts as the same share of what one more node would add. ``objective`` names the unit in
    which work is counted.
    """
    record = DedicatedRecord(nodes)
    admission = Admission(trainers, max_running)
    running: list[_Training] = []
    now_s = from_s
    while now_s < until_s and (running or not admission.is_empty):
        coming = admission.let_in(_least(running), ceil(nodes), now_s)
        running += [_Training(one, objective) for one in coming]
        _share(running, nodes)
        step_s = min(
            min((training.left_s for training in running), default=inf),
            admission.next_arrival_s(_least(running), ceil(nodes), now_s) - now_s,
            until_s - now_s,
        )
        now_s += step_s
        for training in running:
            training.samples += training.rate * step_s
            record.samples += training.rate * step_s
            record.work += training.worth_per_s * step_s
        running = [training for training in running if training.left_s > _NEGLIGIBLE_S]
        record.at_s.append(now_s)
        record.samples_at.append(record.samples)
    return record


def _least(running: Iterable[_Training]) -> list[int]:
    """The fewest nodes of each."""
    return [training.trainer.min_nodes for training in running]


def _share(running: Sequence[_Training], nodes: float) -> None:
    """Set every rate to that of an equal share, between those of the whole numbers of nodes around."""
    limits = tuple(training.limits for training in running)
    fewer, more = _equal_sizes(limits, floor(nodes)), _equal_sizes(limits, ceil(nodes))
    fraction = nodes - floor(nodes)
    for training, low, high in zip(running, fewer, more, strict=True):
        training.rate = (1 - fraction) * training.rates[low] + fraction * training.rates[high]
        training.worth_per_s = (1 - fraction) * training.worth[low] + fraction * training.worth[high]


@lru_cache(maxsize=2)
def _equal_sizes(limits: tuple[tuple[int, int], ...], nodes: int) -> list[int]:
    """Of trainers with these fewest and most nodes: who completes is often followed by one with the same."""
    fewest, most = np.array(limits, dtype=np.int64).reshape(-1, 2).T
    sizes: list[int] = equal_sizes(AimedSizes(fewest, most, np.zeros_like(fewest), 0.0), nodes).tolist()
    return sizes
