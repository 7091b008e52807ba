r"""Reduced-cost enumeration: search all plans worth little less than a bound, where they are few.

At the prices :math:`\lambda` of a bound *L* a plan is worth

.. math:: L - \sum_j s_j - \sum_c \lambda_c u_c,

where :math:`s_j` is the reduced cost of the column of trainer *j* and *u* are idle nodes. So in a plan worth more
than *L* less some slack, no reduced cost exceeds the slack, nor do all together, and few nodes are idle: mostly
none, as one costs more than the slack.

All such plans are searched by merging: two trainers become a group, then groups, those with the least partial
plans first. Of all partial plans of a group that use the same nodes the best is kept, if the other groups could
use just what is left. Of the last two groups one uses exactly what the other leaves; idle nodes are a group of
their own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from freetrain.core.decision import GOOD_ENOUGH
from freetrain.core.problem import Counts
from freetrain.core.terms import Sizes
from freetrain.policies.solver.column_generation import ColumnPlan, ColumnPool, LossArray, PricingResult
from freetrain.policies.solver.pricing_dp import DualPrices
from freetrain.policies.solver.trainer_types import TrainerTypes

_FIRST_GAP = GOOD_ENOUGH / 2
_MAX_COLUMNS = 50_000
"""Columns of all types together, at most."""
_FEW = 100
"""Number of columns below which they do not show how their number grows with the slack."""
_MAX_COMBINATIONS = 150_000
"""Pairs of partial plans of two groups within the slack, at most."""
_MAX_KEYS = 2**62
"""Keys of rows have to fit into 64 bits."""


@dataclass(slots=True)
class Incumbent:
    """The best plan so far; it is good enough within a gap, relative to the bound."""

    trainers: TrainerTypes
    plan: ColumnPlan
    value: float
    gap: float = _FIRST_GAP

    @property
    def good_enough_bound(self) -> float:
        """Bound at or below which the plan is proven to be good enough."""
        return self.value + self.gap * abs(self.value)

    def improve(self, plan: ColumnPlan) -> None:
        """Take another plan if it is worth more."""
        value = plan_value(self.trainers, plan)
        if value > self.value:
            self.plan, self.value = plan, value


def plan_value(trainers: TrainerTypes, plan: ColumnPlan) -> float:
    """The value of a plan."""
    return sum(float(trainers.values_of(type_id, counts).sum()) for type_id, counts in enumerate(plan))


@dataclass(slots=True)
class ReducedCostEnumeration:
    """Searches all plans that are worth at most a slack less than a bound.

    The number of columns grows about as the square of the slack, which predicts whether a search is affordable.
    """

    best: Incumbent
    _columns_by_square: float = 0.0

    def is_promising(self, slack: float) -> bool:
        """Whether the columns of this slack are probably few enough."""
        return slack**2 * self._columns_by_square <= _MAX_COLUMNS

    def bound_within(self, slack: float, relaxed: PricingResult) -> float:
        """Search all plans worth at least a bound less the slack; the bound after that."""
        best, trainers = self.best, relaxed.trainers
        # Plans that are worth less than the incumbent are of no use.
        slack = min(slack, relaxed.bound - best.value)
        if slack <= 0:
            return relaxed.bound
        pools = relaxed.enumerate_columns(slack, _MAX_COLUMNS)
        prices, number = relaxed.duals.nodes, trainers.number.tolist()
        combination = pools and best_combination(pools, number, trainers.capacity, prices, slack)
        enumerated = sum(len(pool.loss) for pool in pools or ()) - _FEW if combination else 4 * _MAX_COLUMNS
        # A search that was given up counts as four times too many: at most half of its slack is tried next.
        self._columns_by_square = max(0, enumerated) / slack**2
        if not combination:
            return relaxed.bound
        loss, plan = combination
        if not plan:
            return relaxed.bound - slack
        best.improve(plan)
        return relaxed.bound - loss


Combination = tuple[float, ColumnPlan]
"""The best plan within the slack and its loss from the bound; where there is none, inf and an empty plan."""
_NO_PLAN: Combination = np.inf, []


@dataclass(frozen=True, slots=True)
class _PartialPlans:
    """Partial plans of a group of trainers, ascending by loss.

    Attributes:
        used: nodes of each class, shape (plans, classes).
        loss: sum of the reduced costs, shape (plans,).
        type_id: the trainer's type, where the group is one trainer.
        parts: the two groups that were merged, and the plan of each in each merged plan.
    """

    used: Counts
    loss: LossArray
    type_id: int = -1
    parts: tuple[tuple[_PartialPlans, Sizes], ...] = ()

    def columns_of(self, row: int) -> Iterator[tuple[int, Counts]]:
        if not self.parts:
            yield self.type_id, self.used[row]
        for group, plans in self.parts:
            yield from group.columns_of(int(plans[row]))


def best_combination(
    pools: Sequence[ColumnPool], number: Sequence[int], capacity: Sizes, prices: DualPrices, slack: float
) -> Combination | None:
    """The best plan within the slack, of all columns within it; None: there are too many partial plans."""
    # In floats: a product of integers would overflow without a word.
    if np.prod(capacity + 1.0) > _MAX_KEYS:
        return None
    idle = _idle_nodes(capacity, prices, slack)
    if idle is None:
        return None
    singles = [_single(type_id, pool, capacity) for type_id, pool in enumerate([*pools, idle])]
    if not all(len(group.loss) for group in singles):
        return _NO_PLAN
    # Identical trainers have equal groups, one for each of them.
    groups = [group for group, alike in zip(singles, [*number, 1], strict=True) for _ in range(alike)]
    while len(groups) > 2:
        # The two with the least partial plans are merged first, since the number of pairs is a product.
        groups.sort(key=lambda group: len(group.loss), reverse=True)
        first_group, second_group = groups.pop(), groups.pop()
        merged = _merge(first_group, second_group, groups, capacity, slack)
        if merged is None:
            return None
        if not len(merged.loss):
            return _NO_PLAN
        groups.append(merged)
    return _match(groups[0], groups[-1], len(pools), capacity, slack)


def _idle_nodes(capacity: Sizes, prices: DualPrices, slack: float) -> ColumnPool | None:
    counts, loss = np.zeros((1, len(capacity)), np.int64), np.zeros(1)
    for column, (nodes, price) in enumerate(zip(capacity.tolist(), prices.tolist(), strict=True)):
        more = np.arange(nodes + 1 if price <= 0 else int(min(nodes, slack / price)) + 1)
        if len(loss) * len(more) > _MAX_COMBINATIONS:
            return None
        some, extra = np.nonzero(loss[:, None] + price * more <= slack)
        counts, loss = counts[some], loss[some] + price * more[extra]
        counts[:, column] = more[extra]
    return ColumnPool(counts, loss)


def _merge(
    first_group: _PartialPlans,
    second_group: _PartialPlans,
    others: Sequence[_PartialPlans],
    capacity: Sizes,
    slack: float,
) -> _PartialPlans | None:
    """Two groups as one whose plans leave what the others can use; None: there are too many pairs."""
    pairs = np.searchsorted(second_group.loss, slack - first_group.loss, side="right")
    if pairs.sum() > _MAX_COMBINATIONS:
        return None
    # All pairs within the slack: both groups ascend by loss, so each plan pairs with a prefix of the others.
    first = np.repeat(np.arange(len(pairs)), pairs)
    second = np.arange(len(first)) - np.repeat(np.cumsum(pairs) - pairs, pairs)
    min_left = capacity - sum(group.used.max(axis=0) for group in others)
    max_left = capacity - sum(group.used.min(axis=0) for group in others)
    # Class by class, so that pairs that cannot fit are dropped before their sums of other classes are made.
    for column, (least, most) in enumerate(zip(min_left, max_left, strict=True)):
        used = first_group.used[first, column] + second_group.used[second, column]
        fits = np.flatnonzero((used >= least) & (used <= most))
        first, second = first[fits], second[fits]
    used = first_group.used[first] + second_group.used[second]
    loss = first_group.loss[first] + second_group.loss[second]
    best = _best_of_each(_keys(used, capacity), loss)
    best = best[np.argsort(loss[best], kind="stable")]
    return _PartialPlans(used[best], loss[best], parts=((first_group, first[best]), (second_group, second[best])))


def _match(
    first_group: _PartialPlans, second_group: _PartialPlans, types: int, capacity: Sizes, slack: float
) -> Combination:
    """The best plan in which one group uses exactly what the other one leaves."""
    keys, left = _keys(second_group.used, capacity), _keys(capacity - first_group.used, capacity)
    best = _best_of_each(keys, second_group.loss)
    match = best[np.minimum(np.searchsorted(keys[best], left), len(best) - 1)]
    loss = np.where(keys[match] == left, first_group.loss + second_group.loss[match], np.inf)
    row = int(loss.argmin())
    if not loss[row] <= slack:
        return _NO_PLAN
    columns = [*first_group.columns_of(row), *second_group.columns_of(int(match[row]))]
    plan = [[counts for owner, counts in columns if owner == type_id] for type_id in range(types)]
    return float(loss[row]), [np.array(counts).reshape(-1, len(capacity)) for counts in plan]


def _single(type_id: int, pool: ColumnPool, capacity: Sizes) -> _PartialPlans:
    order = np.argsort(pool.loss, kind="stable")
    fits = order[(pool.counts[order] <= capacity).all(axis=1)]
    return _PartialPlans(pool.counts[fits], pool.loss[fits], type_id)


def _keys(counts: Counts, capacity: Sizes) -> Sizes:
    """A number for each row, equal only for equal rows (mixed radix)."""
    return np.asarray(counts @ np.cumprod([1, *(capacity[:-1] + 1).tolist()]))


def _best_of_each(keys: Sizes, loss: LossArray) -> Sizes:
    """Of all rows with the same key the one with the least loss, by ascending key."""
    order = np.lexsort((loss, keys))
    return order[np.flatnonzero(np.diff(keys[order], prepend=-1))]
