"""GADGET as a policy for idle nodes: rings of whole nodes, by the concave utility of what has been done so far.

The utilities make a site's aim out of accumulated samples: their sum, or more for trainings that have done least.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from freetrain.core.decision import Allocation
from freetrain.core.problem import Problem, Question
from freetrain.core.terms import Sizes, Table
from freetrain.core.trainer import Trainer
from freetrain.policies.ageing import PATIENCE_S, overdue_sizes, say_turns, serve_first
from freetrain.policies.aiming import HEEDED, asked_of
from freetrain.policies.gadget.links import Links
from freetrain.policies.gadget.reserving import ReservingGadget
from freetrain.policies.needs import TARGET, say_missing, work_of
from freetrain.policies.spread import best_by_tables

_STEEPNESS = 9.0
"""How much steeper the logarithm's utility is at the start than at the target, less one."""
_HURRY = 1e-6
"""Weight of being done sooner beside being done by the horizon."""


@dataclass(frozen=True, slots=True)
class Utility:
    """A member of the alpha-fair family, 0 at the start and ``weight`` at the target, flat beyond it.

    With x the share of the target that is done it is the integral of 1/(1+9x)^alpha, scaled to 1.

    Attributes:
        alpha: 0: linear, so that nothing counts but the sum of what is done; 1: the logarithm, which is
            proportionally fair; the larger, the more those count that have done least.
    """

    alpha: float = 0.0

    def of(self, samples: float, target_samples: float, weight: float = 1.0) -> float:
        """Utility of so many samples; samples beyond the target count nothing."""
        reach = 1 + _STEEPNESS * min(max(samples / target_samples, 0.0), 1.0)
        if self.alpha == 1:
            return weight * math.log(reach) / math.log(1 + _STEEPNESS)
        power = 1 - self.alpha
        return float(weight * (reach**power - 1) / ((1 + _STEEPNESS) ** power - 1))


LINEAR = Utility(0.0)
LOG = Utility(1.0)
FAIR = Utility(2.0)


UTILITIES = {"linear": LINEAR, "log": LOG, "fair": FAIR}
"""Word → utility, the default first."""


class Gadget:
    """Each decision fills the time until the horizon with what adds most utility, rescaling costs taken off.

    The slot of GADGET (INFOCOM 2022) is the horizon here. How fast a ring is, is the trainer's own curve. Of
    divisions that gain the same utility until the horizon it takes the one that is done sooner: the horizon may be
    hours away, and it is decided again as soon as a trainer is complete.

    Args:
        utility: of the part of its target that a trainer has done, a word of ``UTILITIES``.
        patience: seconds after which a trainer that has not had its turn comes first; 0: never.
        name: what its allocations say found them.
    """

    needs_past = ("done_samples",)
    heeds = HEEDED
    weighs = "the utility gained until the horizon"

    def __init__(self, utility: str = "linear", patience: float = PATIENCE_S, name: str = "gadget") -> None:
        self._utility = UTILITIES[utility]
        self._patience_s = patience
        self._name = name

    def decide(self, problem: Problem) -> Allocation:
        """Sizes that gain most utility together."""
        if not problem.held.size:
            return Allocation(problem.held, self._name)
        values, notes = self._values(problem)
        return best_by_tables(problem, values, self._name, notes)

    def reserving(self, links: Links, questions: Sequence[Question]) -> ReservingGadget:
        """The same policy with bandwidth reserved on the links, for one look."""
        return ReservingGadget(self._values, self._name, links, questions)

    def weigh(self, problem: Problem) -> Table:
        """Utility gained until the horizon by size, shape (trainers, sizes); -inf: the size is not looked at."""
        terms, held_nodes, work = problem.terms, problem.held_nodes, work_of(problem)
        slot_s = float(np.average([node_class.life_s for node_class in problem.classes], weights=problem.capacity))
        gains = np.zeros(terms.worth.shape)
        for row, trainer in enumerate(problem.trainers):
            done, target = float(work.done_samples[row]), float(work.target_samples[row])
            before = self._utility.of(done, target, trainer.weight)
            for size in np.flatnonzero(terms.possible[row]).tolist():
                more = _samples_until(trainer, int(held_nodes[row]), size, slot_s)
                hurry = _HURRY * trainer.weight * more / target
                gains[row, size] = self._utility.of(done + more, target, trainer.weight) - before + hurry
        allowed = np.arange(terms.worth.shape[1]) <= work.most_nodes[:, None]
        return np.where(allowed, asked_of(problem).heed(gains), -np.inf)

    def _values(self, problem: Problem) -> tuple[Table, tuple[str, ...]]:
        """The values that decide, turns first, with sentences on assumptions and turns."""
        values = self.weigh(problem)
        turns: Sizes = overdue_sizes(problem, problem.terms.possible & np.isfinite(values), self._patience_s)
        notes = (*say_missing((TARGET,), problem.trainers), *say_turns(problem, turns))
        return serve_first(values, turns), notes


def _samples_until(trainer: Trainer, held: int, size: int, slot_s: float) -> float:
    """Samples of so many seconds on this size, less what the change to it costs."""
    rate, rate_now = trainer.rate(size), trainer.rate(held)
    if size == held:
        return rate * slot_s
    if rate_now == 0:
        return rate * max(slot_s - trainer.start_s, 0.0)
    return rate * slot_s - rate_now * (trainer.scale_up_s if size > held else trainer.scale_down_s)
