"""SMD as a policy for idle nodes: each trainer at its fastest size or not at all, by what completing is worth."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from freetrain.core.allocation import Allocation
from freetrain.core.problem import Problem
from freetrain.core.terms import Table
from freetrain.core.trainer import Trainer
from freetrain.policies.aiming import HEEDED, asked_of
from freetrain.policies.serving import best_step_s
from freetrain.policies.sizes import best_by_tables
from freetrain.policies.smd.outer import sigmoid

_HOUR_S = 3600.0
_DAY_H = 24.0
_STEEPNESS = 0.2


class Smd:
    """Inner problem: the fastest size of each trainer. Outer problem: the knapsack of those worth most.

    In the method of SMD (INFOCOM 2021) for trainers of whole nodes. Where a trainer uses parameter servers and
    its steps were measured, the fastest size is that of the shortest step over nodes and servers; these run
    beside the workers and take no node. What a size is worth follows from the throughput in any case. freetrain
    takes a deadline of a day from now for each: what is complete sooner is worth more, however long it has
    waited. A trainer's own is no part of SMD's worth, by which who names an early one only loses: where the
    objective counts deadlines, what it needs counts more often. Sizes not worth their electricity are none.

    Args:
        menu: smaller sizes may be chosen, too; freetrain's extension.
    """

    needs_progress = True
    heeds = HEEDED
    weighs = "what its completion is worth"

    def __init__(self, menu: bool = False) -> None:
        self._menu = menu

    def decide(self, problem: Problem) -> Allocation:
        """Sizes whose completions are worth most together."""
        return best_by_tables(problem, self.weigh(problem), "smd-menu" if self._menu else "smd")

    def weigh(self, problem: Problem) -> Table:
        """Worth of completing at each size, shape (trainers, sizes); -inf where the size is not looked at."""
        possible, asked = problem.terms.possible, asked_of(problem)
        values, may_have = np.zeros(possible.shape), possible & asked.may_have(possible.shape[1])
        fastest: dict[int, int] = {}
        for row, trainer in enumerate(problem.trainers):
            most = min(int(problem.terms.most_nodes[row]), problem.node_count)
            sizes = np.flatnonzero(may_have[row, : most + 1])[1:].tolist()
            if sizes and not self._menu:
                fastest[row] = _fastest(trainer, sizes)
                sizes = [int(asked.needed[row]), fastest[row]]
            done = problem.done_samples.get(trainer.id, 0.0)
            for size in sizes:
                values[row, size] = _worth(trainer, done, int(problem.held_nodes[row]), size)
        values = asked.heed(values)
        for row, size in fastest.items():
            values[row, 1:size] = values[row, size + 1 :] = -np.inf
        return values


def _fastest(trainer: Trainer, sizes: Sequence[int]) -> int:
    """SMD's inner problem, all sizes tried; the smallest of those that are equally fast."""
    if trainer.servers is not None and trainer.servers.step_s is not None:
        steps_s = {size: best_step_s(trainer.servers, size) or 0.0 for size in sizes}
        return min(sizes, key=lambda size: (steps_s[size], size))
    return max(sizes, key=lambda size: (trainer.rate(size), -size))


def _worth(trainer: Trainer, done_samples: float, held: int, size: int) -> float:
    """Of its completion on this size; one without a target always has a day's work left."""
    rate = trainer.rate(size)
    if rate <= 0:
        return 0.0
    if trainer.target_samples is None:
        left = _DAY_H * _HOUR_S * max(float(trainer.samples_per_s.max()), 1e-9)
    else:
        left = max(trainer.target_samples - done_samples, 0.0)
    return sigmoid((left / rate + _lost_s(trainer, held, size)) / _HOUR_S, trainer.weight, _STEEPNESS, _DAY_H)


def _lost_s(trainer: Trainer, held: int, size: int) -> float:
    if size == held:
        return 0.0
    if trainer.rate(held) == 0:
        return trainer.start_s
    return trainer.scale_up_s if size > held else trainer.scale_down_s
