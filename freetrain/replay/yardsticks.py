"""Yardsticks of a replay: the best division at every instant, and the same trainers on a dedicated machine.

The best division changes at every instant at no cost. Along the concave hulls of trainers' values it gives the
next nodes to the trainer that gains most by each. So one list of such steps, sorted once for the trainers that
are there, answers wherever the nodes end with a whole step. In between the hulls are only a bound. Where some
division is known to come close to it the bound is taken, which flatters nobody who is measured by it; otherwise
the sizes are solved for.

The dedicated machine has as many node-hours as lay idle, in equal shares that never change: the paper's headline
figure compares with it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from math import ceil, floor, inf

import numpy as np
from numpy.typing import NDArray

from freetrain.core.objectives import worth_per_s
from freetrain.core.terms import Table
from freetrain.core.trainer import Trainer
from freetrain.policies.aiming import AimedSizes
from freetrain.policies.equal_share import equal_sizes
from freetrain.policies.solver.knapsack import best_sizes, price_out
from freetrain.replay.trainers import TrainerQueue

_Hull = tuple[NDArray[np.int64], Table]
"""Nodes and gain of each step along a concave hull."""

# Relative to the largest value: sums of rates are off by some units in the last place.
_ROUNDING = 1e-12
_CLOSE = 5e-4
"""Share by which a bound may exceed the worth of the best division and still be taken for it."""
# Rounding leaves a training so short of its target: it is complete.
_NEGLIGIBLE_S = 1e-6


class _Mixture:
    """Some trainers together, with the worth of any number of nodes to them.

    Args:
        values: worth of each size, for each kind of trainer; -inf where a size is impossible.
        alike: kind → number of its trainers.
    """

    def __init__(self, values: Sequence[Table], hulls: Sequence[_Hull], alike: Mapping[int, int]) -> None:
        # Steps along the hulls of all trainers, those that gain most per node first.
        nodes, worth = (np.concatenate([hulls[kind][column] for kind in alike]) for column in (0, 1))
        times = np.repeat(list(alike.values()), [len(hulls[kind][0]) for kind in alike])
        order = np.argsort(-worth / nodes, kind="stable")
        self._nodes, self._worth, times = nodes[order], worth[order], times[order]
        # Of all steps before each of them, which each of the alike trainers takes; at the end of all.
        self._nodes_before = np.concatenate([[0], np.cumsum(times * self._nodes)])
        self._worth_before = np.concatenate([[0.0], np.cumsum(times * self._worth)])
        self._values = [values[kind] for kind in alike]
        self._row = np.repeat(np.arange(len(alike)), list(alike.values()))
        self._known: dict[int, float] = {}

    def best_worth_per_s(self, nodes: int) -> float:
        """Worth per second of the best division of this many nodes; known answers serve again."""
        if nodes not in self._known:
            self._known[nodes] = self._best_worth_per_s(nodes)
        return self._known[nodes]

    def _best_worth_per_s(self, nodes: int) -> float:
        at = int(np.searchsorted(self._nodes_before, nodes, side="right")) - 1
        before = float(self._worth_before[at])
        # Behind the last step lies nothing: more nodes are of no use.
        if at == len(self._nodes):
            return before
        left, its_nodes, worth = nodes - int(self._nodes_before[at]), int(self._nodes[at]), float(self._worth[at])
        # The best lies between a division into whole steps, and one with a part of a step besides.
        most = before + left / its_nodes * worth
        if _is_close(before + left // its_nodes * worth, most):
            return most
        priced = price_out(self._tables, nodes, self._row)
        if _is_close(priced.value, priced.bound):
            return priced.bound
        return float(priced.tables[priced.row, best_sizes(priced, nodes)].sum())

    @cached_property
    def _tables(self) -> Table:
        tables = np.full((len(self._values), max(map(len, self._values))), -np.inf)
        for table, its_values in zip(tables, self._values, strict=True):
            table[: len(its_values)] = its_values
        return tables


class Divider:
    """Divides nodes among trainers; those with the same values are alike."""

    def __init__(self, objective: str) -> None:
        self._objective = objective
        self._kind_of_trainer: dict[str, int] = {}
        self._kind_of_values: dict[bytes, int] = {}
        self._values: list[Table] = []
        self._hulls: list[_Hull] = []
        self._mixtures: dict[tuple[int, ...], _Mixture] = {}
        self._asked: tuple[Sequence[Trainer], _Mixture | None] = (), None

    def best_worth_per_s(self, trainers: Sequence[Trainer], nodes: int) -> float:
        """Worth per second of the best division of this many nodes."""
        if not trainers or not nodes:
            return 0.0
        asked, mixture = self._asked
        if mixture is None or trainers is not asked:
            kinds = tuple(sorted(map(self._kind, trainers)))
            mixture = self._mixtures.get(kinds) or _Mixture(self._values, self._hulls, Counter(kinds))
            self._mixtures[kinds] = mixture
            self._asked = trainers, mixture
        return mixture.best_worth_per_s(nodes)

    def _kind(self, trainer: Trainer) -> int:
        if trainer.id not in self._kind_of_trainer:
            values = worth_per_s(trainer, self._objective).copy()
            values[1 : trainer.min_nodes] = -np.inf
            kind = self._kind_of_values.setdefault(values.tobytes(), len(self._values))
            if kind == len(self._values):
                self._values.append(values)
                self._hulls.append(_hull(values))
            self._kind_of_trainer[trainer.id] = kind
        return self._kind_of_trainer[trainer.id]


def _is_close(known: float, most: float) -> bool:
    return most - known <= _CLOSE * most


def _hull(values: Table) -> _Hull:
    """Nodes and gain of each step along the concave hull of a trainer's values, as far as it rises."""
    scale = float(np.abs(values[np.isfinite(values)]).max(initial=0.0))
    corners = [0]
    for size in np.flatnonzero(np.isfinite(values)).tolist()[1:]:
        # Sizes on the hull between its corners, but for rounding, stay: more ends of steps make the bound exact.
        while len(corners) > 1 and _lies_below(values, corners[-2], corners[-1], size, _ROUNDING * scale):
            corners.pop()
        corners.append(size)
    while len(corners) > 1 and values[corners[-1]] <= values[corners[-2]]:
        corners.pop()
    return np.diff(corners), np.diff(values[corners])


def _lies_below(values: Table, left: int, size: int, right: int, rounding: float) -> bool:
    line = values[left] + (values[right] - values[left]) * (size - left) / (right - left)
    return bool(values[size] < line - rounding)


@dataclass(slots=True)
class DedicatedRecord:
    """Record of the training on a dedicated machine.

    Attributes:
        nodes: number of its nodes, a fraction of a node included.
        work: work of the same trainings, in the objective's unit.
    """

    nodes: float
    samples: float = 0.0
    work: float = 0.0
    at_s: list[float] = field(default_factory=list)
    samples_at: list[float] = field(default_factory=list)


class _DedicatedTraining:
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
    admission = TrainerQueue(trainers, max_running)
    running: list[_DedicatedTraining] = []
    now_s = from_s
    while now_s < until_s and (running or not admission.is_empty):
        coming = admission.let_in(_least(running), ceil(nodes), now_s)
        running += [_DedicatedTraining(trainer, objective) for trainer in coming]
        _share(running, nodes)
        # Rates are constant until the next arrival or completion, so each step is exact.
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


def _least(running: Iterable[_DedicatedTraining]) -> list[int]:
    return [training.trainer.min_nodes for training in running]


def _share(running: Sequence[_DedicatedTraining], nodes: float) -> None:
    """Set every rate to that of an equal share, between those of the whole numbers of nodes around."""
    limits = tuple(training.limits for training in running)
    fewer, more = _equal_sizes(limits, floor(nodes)), _equal_sizes(limits, ceil(nodes))
    fraction = nodes - floor(nodes)
    for training, low, high in zip(running, fewer, more, strict=True):
        training.rate = (1 - fraction) * training.rates[low] + fraction * training.rates[high]
        training.worth_per_s = (1 - fraction) * training.worth[low] + fraction * training.worth[high]


# Two entries: the whole numbers of nodes below and above the fraction, of the same trainers.
@lru_cache(maxsize=2)
def _equal_sizes(limits: tuple[tuple[int, int], ...], nodes: int) -> list[int]:
    """Equal sizes of trainers with these limits; those that complete are often followed by some with the same."""
    min_nodes, max_nodes = np.array(limits, dtype=np.int64).reshape(-1, 2).T
    sizes: list[int] = equal_sizes(AimedSizes(min_nodes, max_nodes, np.zeros_like(min_nodes), 0.0), nodes).tolist()
    return sizes
