r"""Joining: the best plan out of choices that lose little at some prices, found by trying all that fit together.

With the prices :math:`\lambda` of a bound *L*, a plan is worth

.. math:: L - \sum_j s_j - \sum_c \lambda_c u_c,

where :math:`s_j` is how much less than its best the choice of trainer *j* is worth at these prices, and *u* are
the nodes that nobody gets. So in a plan worth more than *L* less some slack no choice loses more than that, nor do
all together, and few nodes are idle: mostly none, as one costs more than the slack. Trainers are joined one by
one; of all that use the same nodes the best is kept. The last one gets exactly what is left.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from freetrain.core.problem import Counts
from freetrain.core.terms import Sizes
from freetrain.policies.solver.over_classes import Prices

_MOST_TOGETHER = 300_000
"""Choices of those who are joined × choices of the next one, at most."""
_MOST_KEYS = 2**62

Losses = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Choices:
    """What one trainer, or each of several that do not differ, may get.

    Attributes:
        counts: nodes of each class, shape (choices, classes).
        loss: how much less than the best each is worth, shape (choices,).
    """

    counts: Counts
    loss: Losses


@dataclass(frozen=True, slots=True)
class Joined:
    """The best of all plans that lose no more than the slack.

    Attributes:
        loss: how much it loses; more than the slack: there is none.
        counts: what the trainers of each kind get, as a plan.
    """

    loss: float
    counts: list[Counts]


@dataclass(frozen=True, slots=True)
class _Step:
    """Some of those who are joined: what they use and lose together, and how it came about."""

    used: Counts
    loss: Losses
    before: Sizes
    choice: Sizes


def join(
    choices: Sequence[Choices], number: Sequence[int], capacity: Sizes, prices: Prices, slack: float
) -> Joined | None:
    """The best plan that loses no more than the slack; None: there are too many to try.

    Args:
        choices: of each kind of trainer, all that lose no more.
        number: how many trainers of each kind there are.
        capacity: nodes in each class.
        prices: of a node of each class.
        slack: how much may be lost.
    """
    if np.prod(capacity + 1.0) > _MOST_KEYS:
        return None
    idle = _idle(capacity, prices, slack)
    if idle is None:
        return None
    if not all(len(each.loss) for each in choices):
        return Joined(np.inf, [])
    every = [*choices, idle]
    order = sorted(range(len(every)), key=lambda kind: len(every[kind].loss))
    whose = [kind for kind in order for _ in range([*number, 1][kind])]
    steps = [_Step(np.zeros((1, len(capacity)), np.int64), np.zeros(1), np.zeros(1, int), np.zeros(1, int))]
    for kind in whose[:-1]:
        step = _with_next(steps[-1], every[kind], capacity, slack)
        if step is None:
            return None
        steps.append(step)
    return _with_last(steps, whose, every, capacity, slack)


def _idle(capacity: Sizes, prices: Prices, slack: float) -> Choices | None:
    """Nodes that nobody gets."""
    counts, loss = np.zeros((1, len(capacity)), np.int64), np.zeros(1)
    for column, (nodes, price) in enumerate(zip(capacity.tolist(), prices.tolist(), strict=True)):
        more = np.arange(nodes + 1 if price <= 0 else int(min(nodes, slack / price)) + 1)
        if len(loss) * len(more) > _MOST_TOGETHER:
            return None
        some, at = np.nonzero(loss[:, None] + price * more <= slack)
        counts, loss = counts[some], loss[some] + price * more[at]
        counts[:, column] = more[at]
    return Choices(counts, loss)


def _with_next(step: _Step, choices: Choices, capacity: Sizes, slack: float) -> _Step | None:
    """Those who are joined and another one; None: there are too many ways."""
    if len(step.loss) * len(choices.loss) > _MOST_TOGETHER:
        return None
    before, choice = np.nonzero(step.loss[:, None] + choices.loss <= slack)
    used = step.used[before] + choices.counts[choice]
    fits = (used <= capacity).all(axis=1)
    before, choice, used = before[fits], choice[fits], used[fits]
    loss = step.loss[before] + choices.loss[choice]
    best = _best_of_each(_keys(used, capacity), loss)
    return _Step(used[best], loss[best], before[best], choice[best])


def _with_last(
    steps: list[_Step], whose: list[int], every: Sequence[Choices], capacity: Sizes, slack: float
) -> Joined:
    """Those who are joined and the last one, who gets all that is left."""
    step, last = steps[-1], every[whose[-1]]
    keys = _keys(last.counts, capacity)
    best = _best_of_each(keys, last.loss)
    left = _keys(capacity - step.used, capacity)
    at = np.minimum(np.searchsorted(keys[best], left), len(best) - 1)
    loss = np.where(keys[best][at] == left, step.loss + last.loss[best][at], np.inf)
    if not len(loss) or loss.min() > slack:
        return Joined(np.inf, [])
    row = int(loss.argmin())
    taken = [last.counts[best[at[row]]]]
    for step, kind in zip(steps[:0:-1], whose[-2::-1], strict=True):
        taken.append(every[kind].counts[step.choice[row]])
        row = int(step.before[row])
    plan = [
        [counts for counts, other in zip(taken, reversed(whose), strict=True) if other == kind]
        for kind in range(len(every) - 1)
    ]
    return Joined(float(loss.min()), [np.array(each).reshape(-1, len(capacity)) for each in plan])


def _keys(counts: Counts, capacity: Sizes) -> Sizes:
    """A number for each row, different for different rows."""
    return np.asarray(counts @ np.cumprod([1, *(capacity[:-1] + 1).tolist()]))


def _best_of_each(keys: Sizes, loss: Losses) -> Sizes:
    """Of all rows with the same key the one that loses least, by ascending key."""
    order = np.lexsort((loss, keys))
    return order[np.flatnonzero(np.diff(keys[order], prepend=-1))]
