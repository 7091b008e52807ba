r"""Columns: the choices of trainers that matter, of which HiGHS combines the best ones that fit together.

There are too many choices to write down; those that matter are generated (Dantzig and Wolfe 1960): HiGHS combines
the known ones as a linear programme, its duals are prices of the nodes, and each trainer's best reply to them is a
new column, until none is better than what is known. The prices bound every allocation from above,

.. math:: L(\lambda) = \sum_c \lambda_c\,\mathrm{capacity}_c + \sum_j \max_n \bigl(V_j(n) - \lambda \cdot n\bigr).

From there to whole trainers:

1. *Dive*: what is whole in the relaxed combination stays, then its largest fraction, and so on; columns are
   generated anew for what is left.
2. *Prove*: a column worth less than its trainer's best by more than the bound lies above a known allocation
   is in no better one. Where few are left, the best combination of them is the optimum.
3. *Improve*, where many are left and the allocation is not good enough: some trainers put their nodes together and
   share them out anew; and so on from 2.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from freetrain.core.decision import GOOD_ENOUGH
from freetrain.core.problem import Counts
from freetrain.policies.solver.answer import Answer
from freetrain.policies.solver.bidders import Bidders
from freetrain.policies.solver.master import Master, Plan, Times
from freetrain.policies.solver.replies import Replies, best_replies

_EXACT = 1e-9
"""Relative difference of values that counts as none."""
_WHOLE = 1e-6
"""As much may a number of trainers lie below a whole one."""
_MOST_ROUNDS = 200
"""Times that columns are generated for the relaxed combination, where they stop getting better long before."""
_MOST_DIVING_ROUNDS = 4
"""The same, each time that a dive has fixed some trainers."""
_FEW_COLUMNS = 200
"""So many more columns can HiGHS combine with proof in a moment."""
_LAST_BRANCHES = 1000
"""Of the search for that proof, at most."""
_NEIGHBOURS = 8
"""Kinds of trainers that share out their nodes anew at a time."""
_MANY_COLUMNS = 1200
"""Of these, the nearest to its best reply, are the columns drawn which a neighbour may choose from, ..."""
_COLUMNS_OF_EACH = 60
"""... and so many of them, ..."""
_BRANCHES = 200
"""... which HiGHS combines with so many branches at most."""
_MOST_IMPROVEMENTS = 40
_MOST_IN_VAIN = 8
"""Improvements in a row that improve nothing, after which no other is tried."""

Clock = Callable[[], float]
"""Wall seconds that are left."""


@dataclass(frozen=True, slots=True)
class _Relaxed:
    """What is known when no column is better than those that are known.

    Attributes:
        bound: no allocation is worth more.
        replies: the best ones to the prices that prove it.
    """

    bound: float
    replies: Replies


def solve(bidders: Bidders, rows: Sequence[Sequence[int]], *, left_s: Clock) -> Answer:
    """An allocation, and a bound that shows how good it is.

    Args:
        bidders: the trainers.
        rows: of the problem's trainers of each kind.
        left_s: wall seconds that are left; when none are, the best allocation so far is the answer.
    """
    plan, bound = combine(bidders, left_s)
    counts = np.zeros((sum(map(len, rows)), len(bidders.capacity)), dtype=np.int64)
    for of_kind, each in zip(rows, plan, strict=True):
        counts[of_kind] = each
    proven = bound - _value_of(bidders, plan) <= _EXACT * max(1.0, abs(bound))
    is_late = left_s() <= 0
    return Answer(counts, proven, bound, "its time had run out" if is_late else "", is_late)


def combine(bidders: Bidders, left_s: Clock) -> tuple[Plan, float]:
    """The same, kind by kind."""
    master = _begin(bidders)
    relaxed = _generate(master, bidders, left_s)
    plan = master.plan_of(_dive(master, bidders, left_s))
    bound, value, vain, draw = relaxed.bound, _value_of(bidders, plan), 0, random.Random(1)
    for _ in range(_MOST_IMPROVEMENTS):
        slack = bound - value
        if slack <= _EXACT * max(1.0, abs(bound)) or left_s() <= 0:
            break
        if _add_all_within(slack, relaxed.replies, master):
            plan, best_of_these = master.whole(plan, _EXACT * abs(bound), _LAST_BRANCHES, left_s())
            bound = min(bound, max(best_of_these, value))
            break
        if slack <= GOOD_ENOUGH * abs(bound) or vain == _MOST_IN_VAIN:
            break
        _improve(plan, bidders, _least_happy(plan, bidders, relaxed.replies, draw), draw, left_s)
        former, value = value, _value_of(bidders, plan)
        vain = 0 if value > former else vain + 1
    return plan, max(bound, _value_of(bidders, plan))


def _begin(bidders: Bidders, plan: Plan | None = None) -> Master:
    """A master that knows what is always possible: that nobody gets anything, what is now, and a plan."""
    master = Master(bidders)
    held = bidders.held_by_kind
    master.add_all(np.zeros_like(held))
    master.add_all(held)
    for kind, each in enumerate(plan or []):
        for column in each:
            master.add(kind, column)
    return master


def _generate(master: Master, bidders: Bidders, left_s: Clock) -> _Relaxed:
    """Add columns until the prices say that no other is better."""
    best = None
    for _ in range(_MOST_ROUNDS):
        worth, prices, _ = master.relax()
        replies = best_replies(bidders, prices)
        bound = float(prices @ bidders.capacity + replies.value @ bidders.number)
        if best is None or bound < best.bound:
            best = _Relaxed(bound, replies)
        is_best = best.bound - worth <= _EXACT * max(1.0, abs(worth))
        if is_best or not master.add_all(replies.counts) or left_s() <= 0:
            break
    assert best is not None
    return best


def _dive(master: Master, bidders: Bidders, left_s: Clock) -> Times:
    """A whole combination near the relaxed one."""
    taken = master.relax()[2]
    fixed = np.zeros(len(taken), np.int64)
    while (np.bincount(master.kinds, weights=fixed) < bidders.number).any():
        more = np.floor(taken + _WHOLE).astype(np.int64) - fixed
        if not more.any():
            more[np.argmax(taken - fixed)] = 1
        fixed += more
        left = bidders.on(bidders.capacity - fixed @ master.counts)
        for more_rounds in reversed(range(_MOST_DIVING_ROUNDS)):
            fixed = np.append(fixed, np.zeros(len(master) - len(fixed), np.int64))
            master.bar(fixed, left.capacity)
            _, prices, taken = master.relax()
            if not more_rounds or left_s() <= 0 or not master.add_all(best_replies(left, prices).counts):
                break
    return fixed


def _least_happy(plan: Plan, bidders: Bidders, replies: Replies, draw: random.Random) -> list[int]:
    """Some kinds whose choices lie far below their best replies, and some by lot."""
    worst = [(bidders.values_of(kind, each) - each @ replies.prices).min() for kind, each in enumerate(plan)]
    missed = replies.value - np.array(worst)
    lot = np.array([draw.random() for _ in plan])
    order = np.argsort(-(missed / max(float(missed.max()), _EXACT) + lot), kind="stable")
    return sorted(order[:_NEIGHBOURS].tolist())


def _improve(plan: Plan, bidders: Bidders, some: Sequence[int], draw: random.Random, left_s: Clock) -> None:
    """Some kinds of trainers put their nodes together and share them out anew."""
    others = [each for kind, each in enumerate(plan) if kind not in some]
    left = bidders.capacity - sum((each.sum(axis=0) for each in others), np.zeros_like(bidders.capacity))
    few, now = bidders.only(np.array(some)).on(left), [plan[kind] for kind in some]
    master = _begin(few, now)
    relaxed = _generate(master, few, left_s)
    slack, gap = relaxed.bound - _value_of(few, now), GOOD_ENOUGH / 4 * abs(relaxed.bound)
    if slack <= gap:
        return
    for kind in range(len(some)):
        for column in _some_within(slack, relaxed.replies, kind, draw):
            master.add(kind, column)
    better, _ = master.whole(now, gap, _BRANCHES, left_s())
    for kind, each in zip(some, better, strict=True):
        plan[kind] = each


def _add_all_within(slack: float, replies: Replies, master: Master) -> bool:
    """Add every column that is worth so much less than its kind's best; whether few enough to add all."""
    known = len(master)
    for kind in range(len(replies.value)):
        for column in replies.nearly_best(kind, slack):
            master.add(kind, column)
            if len(master) - known > _FEW_COLUMNS:
                return False
    return True


def _some_within(slack: float, replies: Replies, kind: int, draw: random.Random) -> list[Counts]:
    """Some columns that are worth so much less than the kind's best, of the nearest ones."""
    near: list[Counts] = []
    while slack > 0:
        near = list(itertools.islice(replies.nearly_best(kind, slack), _MANY_COLUMNS))
        if len(near) < _MANY_COLUMNS:
            break
        slack = slack / 4 if slack > _EXACT * abs(replies.value[kind]) else 0.0
    return draw.sample(near, min(_COLUMNS_OF_EACH, len(near)))


def _value_of(bidders: Bidders, plan: Plan) -> float:
    return sum(float(bidders.values_of(kind, each).sum()) for kind, each in enumerate(plan))
