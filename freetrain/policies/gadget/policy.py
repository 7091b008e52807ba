"""GADGET as a policy for idle nodes: rings of whole nodes, by the concave utility of what has been done so far."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from freetrain.core.allocation import Allocation
from freetrain.core.problem import Problem, Question
from freetrain.core.terms import Table
from freetrain.core.trainer import Trainer
from freetrain.policies.aiming import HEEDED, asked_of
from freetrain.policies.gadget.reserving import ReservingGadget
from freetrain.policies.gadget.utility import LINEAR, Utility
from freetrain.policies.links import Links
from freetrain.policies.sizes import best_by_tables

_DAY_S = 86400.0
_HURRY = 1e-6
"""How much less it counts to be done sooner than to be done by the horizon."""


class Gadget:
    """Each decision fills the time until the horizon with what adds most utility, rescaling costs taken off.

    The slot of GADGET (INFOCOM 2022) is the horizon here. How fast a ring is, is the trainer's own curve. Of
    divisions that gain the same utility until the horizon it takes the one that is done sooner: the horizon may be
    hours away, and it is decided anew as soon as one is complete.

    Args:
        utility: of the samples that a trainer has done.
        name: what its allocations say found them.
    """

    needs_progress = True
    heeds = HEEDED
    weighs = "the utility gained until the horizon"

    def __init__(self, utility: Utility = LINEAR, name: str = "gadget") -> None:
        self._utility = utility
        self._name = name

    def decide(self, problem: Problem) -> Allocation:
        """Sizes that gain most utility together."""
        if not problem.held.size:
            return Allocation(problem.held, self._name)
        return best_by_tables(problem, self.weigh(problem), self._name)

    def reserving(self, links: Links, questions: Sequence[Question]) -> ReservingGadget:
        """The same with bandwidth reserved on the links, for one look."""
        return ReservingGadget(self.weigh, self._name, links, questions)

    def weigh(self, problem: Problem) -> Table:
        """Utility gained until the horizon by size, shape (trainers, sizes); -inf where electricity forbids it."""
        terms, held_nodes = problem.terms, problem.held_nodes
        slot_s = float(np.average([one.life_s for one in problem.classes], weights=problem.capacity))
        gains = np.zeros(terms.worth.shape)
        for row, trainer in enumerate(problem.trainers):
            done = problem.done_samples.get(trainer.id, 0.0)
            target = _target(trainer, done)
            before = self._utility.of(done, target, trainer.weight)
            for size in np.flatnonzero(terms.possible[row]).tolist():
                more = _samples_until(trainer, int(held_nodes[row]), size, slot_s)
                hurry = _HURRY * trainer.weight * more / target
                gains[row, size] = self._utility.of(done + more, target, trainer.weight) - before + hurry
        return asked_of(problem).heed(gains)


def _target(trainer: Trainer, done_samples: float) -> float:
    """Its target; of one that has none, what it would have done after another day on all nodes that it can use."""
    if trainer.target_samples is not None:
        return trainer.target_samples
    return done_samples + _DAY_S * max(float(trainer.samples_per_s.max()), 1e-9)


def _samples_until(trainer: Trainer, held: int, size: int, slot_s: float) -> float:
    """What it does in so many seconds on this size, less what changing to it costs."""
    rate, rate_now = trainer.rate(size), trainer.rate(held)
    if size == held:
        return rate * slot_s
    if rate_now == 0:
        return rate * max(slot_s - trainer.start_s, 0.0)
    return rate * slot_s - rate_now * (trainer.scale_up_s if size > held else trainer.scale_down_s)
