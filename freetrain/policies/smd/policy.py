"""SMD as a policy for idle nodes: each trainer at its fastest size or not at all, by what completing is worth."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from freetrain.core.decision import Allocation
from freetrain.core.problem import Problem
from freetrain.core.terms import Sizes, Table
from freetrain.core.trainer import Trainer
from freetrain.policies.ageing import PATIENCE_S, overdue_sizes, say_turns, serve_first
from freetrain.policies.aiming import HEEDED, asked_of
from freetrain.policies.needs import STEP_MODEL, TARGET, say_missing, work_of
from freetrain.policies.smd.inner import best_step_s
from freetrain.policies.spread import best_by_tables

SIZES = ("fastest", "menu")
"""Words for the sizes that may be chosen, the default first."""
_HOUR_S = 3600.0
_DAY_H = 24.0
_STEEPNESS = 0.2


class Smd:
    """Inner problem: the fastest size of each trainer. Outer problem: the knapsack of those worth most.

    In the method of SMD (INFOCOM 2021) for trainers of whole nodes. Where a trainer uses parameter servers and
    its steps were measured, the fastest size is that of the shortest step over nodes and servers; these run
    beside the workers and take no node. What a size is worth follows from the throughput in any case. freetrain
    takes a deadline of a day from now for each: what is complete sooner is worth more, however long it has
    waited, and so it is the patience that brings long trainings on. A trainer's own deadline is no part of SMD's
    worth, by which a training that names an early one only loses: where the objective counts deadlines, what it
    needs counts more often. Sizes not worth their electricity are none.

    Args:
        sizes: ``fastest``, or ``menu``: smaller sizes may be chosen, too, freetrain's extension.
        patience: seconds after which a trainer that has not had its turn comes first; 0: never.
    """

    needs_past = ("done_samples",)
    heeds = HEEDED
    weighs = "what its completion is worth"

    def __init__(self, sizes: str = "fastest", patience: float = PATIENCE_S, name: str = "smd") -> None:
        self._menu = sizes == "menu"
        self._patience_s = patience
        self._name = name

    def decide(self, problem: Problem) -> Allocation:
        """Sizes whose completions are worth most together, those first whose turn it is."""
        if not problem.held.size:
            return Allocation(problem.held, self._name)
        allowed = problem.terms.possible & asked_of(problem).may_have(problem.terms.possible.shape[1])
        turns = overdue_sizes(problem, allowed, self._patience_s)
        values = serve_first(self._weigh(problem, turns), turns)
        notes = (*say_missing((TARGET, STEP_MODEL), problem.trainers), *say_turns(problem, turns))
        return best_by_tables(problem, values, self._name, notes)

    def weigh(self, problem: Problem) -> Table:
        """Worth of completing at each size, shape (trainers, sizes); -inf where the size is not looked at."""
        return self._weigh(problem, np.zeros(len(problem.trainers), dtype=np.int64))

    def _weigh(self, problem: Problem, turns: Sizes) -> Table:
        """The worth, with sizes that trainers get because it is their turn among those that are looked at."""
        possible, asked, work = problem.terms.possible, asked_of(problem), work_of(problem)
        values, may_have = np.zeros(possible.shape), possible & asked.may_have(possible.shape[1])
        looked_at = np.zeros(possible.shape, dtype=bool)
        for row, trainer in enumerate(problem.trainers):
            sizes = np.flatnonzero(may_have[row, : int(work.most_nodes[row]) + 1])[1:].tolist()
            valued = sizes
            if sizes and not self._menu:
                sizes = [fastest := _fastest(trainer, sizes), *([int(turns[row])] if turns[row] else [])]
                valued = [int(asked.needed[row]), fastest, *sizes]
            left = max(float(work.target_samples[row] - work.done_samples[row]), 0.0)
            for size in valued:
                values[row, size] = _worth(trainer, left, int(problem.held_nodes[row]), size)
            looked_at[row, [0, *sizes]] = True
        return np.where(looked_at, asked.heed(values), -np.inf)


def _fastest(trainer: Trainer, sizes: Sequence[int]) -> int:
    """SMD's inner problem, all sizes tried; the smallest of those that are equally fast."""
    if trainer.servers is not None and trainer.servers.step_s is not None:
        steps_s = {size: best_step_s(trainer.servers, size) or 0.0 for size in sizes}
        return min(sizes, key=lambda size: (steps_s[size], size))
    return max(sizes, key=lambda size: (trainer.rate(size), -size))


def _worth(trainer: Trainer, left_samples: float, held: int, size: int) -> float:
    rate = trainer.rate(size)
    if rate <= 0:
        return 0.0
    to_go_s = left_samples / rate + trainer.change_s(held, size)
    return sigmoid(to_go_s / _HOUR_S, trainer.weight, _STEEPNESS, _DAY_H)


def sigmoid(seconds_to_go: float, worth: float, steepness: float, deadline: float) -> float:
    """Worth of a completion after so long: all of it early, half of it at the deadline, nothing much later.

    Args:
        seconds_to_go: until completion; the unit is that of ``deadline``.
        worth: if it were at once and the steepness high.
        steepness: how suddenly it falls; 0: half of it whenever it is.
        deadline: where it is half.
    """
    # math.exp overflows beyond 709.
    exponent = min(max(steepness * (seconds_to_go - deadline), -700.0), 700.0)
    return worth / (1 + math.exp(exponent))
