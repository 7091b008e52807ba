r"""Joining: the best plan out of choices that lose little at some prices, found by trying all that fit together.

With the prices :math:`\lambda` of a bound *L*, a plan is worth

.. math:: L - \sum_j s_j - \sum_c \lambda_c u_c,

where :math:`s_j` is how much less than its best the choice of trainer *j* is worth at these prices, and *u* are
the nodes that nobody gets. So in a plan worth more than *L* less some slack no choice loses more than that, nor do
all together, and few nodes are idle: mostly none, as one costs more than the slack. Two trainers are joined to a
group, then groups, those of the fewest choices first. Of all choices of a group that use the same nodes the best
is kept, of those with which the others could use what is left, neither more nor less. Of the last two groups one
gets exactly what the other leaves.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from freetrain.core.problem import Counts
from freetrain.core.terms import Sizes
from freetrain.policies.solver.over_classes import Prices

_MOST_TOGETHER = 150_000
"""Choices of two groups that lose no more than the slack together, at most."""
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
class _Group:
    """What one trainer gets, or some get together, in each of their choices, ascending by loss.

    Attributes:
        used: nodes of each class, shape (choices, classes).
        loss: how much less than the best they are worth, shape (choices,).
        kind: whose choices these are, where it is one trainer.
        parts: the groups that it was made of, and which choice of each of them each choice is.
    """

    used: Counts
    loss: Losses
    kind: int = -1
    parts: tuple[tuple[_Group, Sizes], ...] = ()

    def taken(self, row: int) -> Iterator[tuple[int, Counts]]:
        """Of which kind each trainer is, and what it gets, in one of the choices."""
        if not self.parts:
            yield self.kind, self.used[row]
        for group, choice in self.parts:
            yield from group.taken(int(choice[row]))


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
    every = [_possible(kind, each, capacity) for kind, each in enumerate([*choices, idle])]
    if not all(len(each.loss) for each in every):
        return Joined(np.inf, [])
    groups = [group for group, alike in zip(every, [*number, 1], strict=True) for _ in range(alike)]
    while len(groups) > 2:
        groups.sort(key=lambda group: len(group.loss), reverse=True)
        one, other = groups.pop(), groups.pop()
        together = _together(one, other, _left_by(groups, capacity), capacity, slack)
        if together is None:
            return None
        if not len(together.loss):
            return Joined(np.inf, [])
        groups.append(together)
    return _matched(groups[0], groups[-1], len(choices), capacity, slack)


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


def _left_by(groups: Sequence[_Group], capacity: Sizes) -> tuple[Sizes, Sizes]:
    """Nodes of each class that these groups leave at least, and at most."""
    fewest = sum((group.used.min(axis=0) for group in groups), np.zeros_like(capacity))
    most = sum((group.used.max(axis=0) for group in groups), np.zeros_like(capacity))
    return capacity - most, capacity - fewest


def _together(
    one: _Group, other: _Group, left: tuple[Sizes, Sizes], capacity: Sizes, slack: float
) -> _Group | None:
    """Two groups as one, which uses what is left by the others; None: there are too many ways."""
    ways = np.searchsorted(other.loss, slack - one.loss, side="right")
    if ways.sum() > _MOST_TOGETHER:
        return None
    first = np.repeat(np.arange(len(ways)), ways)
    second = np.arange(len(first)) - np.repeat(np.cumsum(ways) - ways, ways)
    for column, (least, most) in enumerate(zip(*left, strict=True)):
        used = one.used[first, column] + other.used[second, column]
        fits = np.flatnonzero((used >= least) & (used <= most))
        first, second = first[fits], second[fits]
    used = one.used[first] + other.used[second]
    loss = one.loss[first] + other.loss[second]
    best = _best_of_each(_keys(used, capacity), loss)
    best = best[np.argsort(loss[best], kind="stable")]
    return _Group(used[best], loss[best], parts=((one, first[best]), (other, second[best])))


def _matched(one: _Group, other: _Group, kinds: int, capacity: Sizes, slack: float) -> Joined:
    """The best plan in which one group gets exactly what the other one leaves."""
    keys, left = _keys(other.used, capacity), _keys(capacity - one.used, capacity)
    best = _best_of_each(keys, other.loss)
    at = best[np.minimum(np.searchsorted(keys[best], left), len(best) - 1)]
    loss = np.where(keys[at] == left, one.loss + other.loss[at], np.inf)
    row = int(loss.argmin())
    if not loss[row] <= slack:
        return Joined(np.inf, [])
    taken = [*one.taken(row), *other.taken(int(at[row]))]
    plan = [[counts for whose, counts in taken if whose == kind] for kind in range(kinds)]
    return Joined(float(loss[row]), [np.array(each).reshape(-1, len(capacity)) for each in plan])


def _possible(kind: int, choices: Choices, capacity: Sizes) -> _Group:
    """The choices for which there are nodes."""
    order = np.argsort(choices.loss, kind="stable")
    fits = order[(choices.counts[order] <= capacity).all(axis=1)]
    return _Group(choices.counts[fits], choices.loss[fits], kind)


def _keys(counts: Counts, capacity: Sizes) -> Sizes:
    """A number for each row, different for different rows."""
    return np.asarray(counts @ np.cumprod([1, *(capacity[:-1] + 1).tolist()]))


def _best_of_each(keys: Sizes, loss: Losses) -> Sizes:
    """Of all rows with the same key the one that loses least, by ascending key."""
    order = np.lexsort((loss, keys))
    return order[np.flatnonzero(np.diff(keys[order], prepend=-1))]
