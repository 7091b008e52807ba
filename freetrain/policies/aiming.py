r"""Aiming: how policies that do not maximise the objective heed what a site puts behind it, in one place.

Such a policy weighs sizes by a value *V* of its own, or by none. So of the parts of an objective
(``freetrain.core.aim``) it can heed two, and both by sizes:

- *deadlines*: what a deadline needs counts 1 + F times, by the policy's own value,
  :math:`V(N) + F\,V(\min(N, n^*))` as in ``freetrain.core.deadlines``.
- *energy*: no trainer gets more nodes than are worth most, electricity taken off, nor so few that they are worth
  less than their electricity. What they are worth is the objective's, by which ``energy`` is measured, deadlines
  included; a node takes what those take on average that the trainer may have.

Which nodes leave when it does not know, so evictions avoided are nothing to it. A policy that maximises the
objective heeds all of it, and has no use for this.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from freetrain.core.aim import PARTS, read_aim
from freetrain.core.problem import Problem
from freetrain.core.terms import Sizes, Table
from freetrain.core.trainer import Trainer

HEEDED = frozenset({"deadlines", "energy"})
"""Parts of the objective that policies heed by what is here; such a policy says so as its attribute ``heeds``."""

_USUAL = frozenset({"speedup", "weighted"})
"""Defaults: a site did not choose these objectives."""
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class AimedSizes:
    """Requirements of the objective on the sizes of trainers, each of shape (trainers,).

    Attributes:
        min_nodes: least size that is worth its electricity; without a price of it, the trainer's minimum.
        max_nodes: nodes with which they are worth most; 0: none are worth it.
        needed: nodes that the trainer's deadline asks for and that it may have; 0: none.
        factor: factor by which these count more.
    """

    min_nodes: Sizes
    max_nodes: Sizes
    needed: Sizes
    factor: float

    def may_have(self, sizes: int) -> NDArray[np.bool_]:
        """Whether each size is worth its electricity, shape (trainers, sizes)."""
        size = np.arange(sizes)
        return np.asarray((size == 0) | ((size >= self.min_nodes[:, None]) & (size <= self.max_nodes[:, None])))

    def heed(self, values: Table) -> Table:
        """A policy's own values by size, needs of deadlines counted more; -inf where a size is not worth it."""
        needed = np.minimum(np.arange(values.shape[1]), self.needed[:, None])
        more = np.where(self.needed[:, None] > 0, np.take_along_axis(values, needed, axis=1), 0.0)
        return np.where(self.may_have(values.shape[1]), values + self.factor * more, -np.inf)


def nothing_asked(trainers: Sequence[Trainer]) -> AimedSizes:
    """The requirements of an objective without further parts: the trainers' own limits."""
    min_nodes = np.array([trainer.min_nodes for trainer in trainers], dtype=np.int64)
    max_nodes = np.array([trainer.most_nodes if trainer.can_run else 0 for trainer in trainers], dtype=np.int64)
    return AimedSizes(min_nodes, max_nodes, np.zeros_like(min_nodes), 0.0)


def asked_of(problem: Problem) -> AimedSizes:
    """The requirements of a problem's objective on the sizes of its trainers."""
    aim, limits = read_aim(problem.objective), nothing_asked(problem.trainers)
    min_nodes, max_nodes = limits.min_nodes, limits.max_nodes
    if aim.energy and problem.trainers and any(node_class.traits.watts for node_class in problem.classes):
        min_nodes, max_nodes = _worth_their_electricity(problem, min_nodes)
    return AimedSizes(min_nodes, max_nodes, _possible(problem, min_nodes, max_nodes), aim.deadlines)


def _possible(problem: Problem, min_nodes: Sizes, max_nodes: Sizes) -> Sizes:
    """Nodes that deadlines ask for; where the trainer may not have so many, the next more, or else fewer."""
    needed = problem.needed_nodes.copy()
    for row in np.flatnonzero(needed).tolist():
        sizes = np.flatnonzero(problem.terms.possible[row])
        sizes = sizes[(sizes >= min_nodes[row]) & (sizes <= max_nodes[row])]
        needed[row] = sizes[min(np.searchsorted(sizes, needed[row]), len(sizes) - 1)] if len(sizes) else 0
    return needed


def _worth_their_electricity(problem: Problem, min_nodes: Sizes) -> tuple[Sizes, Sizes]:
    """Smallest and largest size of each trainer, of which none between is worth less than its electricity."""
    choices, terms = problem.choices, problem.choices.terms
    node_s = problem.capacity * np.array([node_class.life_s for node_class in problem.classes])
    joules = node_s * np.array([node_class.traits.watts for node_class in problem.classes])
    seconds = (choices.covers * node_s).sum(axis=1)
    watts = np.divide(
        (choices.covers * joules).sum(axis=1), seconds, out=np.zeros(len(seconds)), where=seconds > 0
    )
    # Worth per second less electricity, of each choice and size; of a trainer's choices the best counts.
    size = np.arange(terms.worth.shape[1])
    net = terms.worth - (terms.per_joule * watts)[:, None] * size
    # Where worth and electricity balance, rounding must not decide.
    net = choices.best_of_each(np.where(np.abs(net) <= _ROUNDING * terms.worth, 0.0, net))
    possible = problem.terms.possible[:, : len(size)]
    net = np.where(possible, net, -np.inf)
    # Reversed, so that of sizes that are worth equally much the largest is found.
    max_nodes = size[-1] - net[:, ::-1].argmax(axis=1)
    loses = possible & (net < 0) & (size < max_nodes[:, None])
    return np.maximum(min_nodes, np.where(loses, size + 1, 0).max(axis=1)), max_nodes


def heeded_by(policy: object) -> Collection[str] | None:
    """The parts of the objective that a policy heeds, as its attribute ``heeds`` says; None: all, and the rest."""
    heeds: Collection[str] | None = getattr(policy, "heeds", None)
    return heeds


def unheeded(policy: object, name: str, objective: str) -> str:
    """The parts of an objective that have no effect with a policy, as a sentence; empty: there are none."""
    heeds = heeded_by(policy)
    if heeds is None:
        return ""
    aim = read_aim(objective)
    parts = [word for word, part in PARTS.items() if getattr(aim, part.field) and word not in heeds]
    if aim.objective not in _USUAL and not aim.energy:
        parts.insert(0, aim.objective)
    if not parts:
        return ""
    also = f"; it heeds {' and '.join(sorted(heeds))}" if heeds else ""
    return (
        f"With the policy {name}, {' and '.join(parts)} of the objective {objective!r} "
        f"{'has' if len(parts) == 1 else 'have'} no effect: it decides by a rule of its own{also}."
    )
