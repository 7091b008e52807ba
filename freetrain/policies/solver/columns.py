r"""Columns: the choices of trainers that matter, which HiGHS combines; and what whole trainers make of it.

There are too many choices to write down; those that matter are generated (Dantzig and Wolfe 1960): HiGHS combines
the known ones as a linear programme, its duals are prices of the nodes, and each trainer's best reply to them is a
new column, until none is better than what is known. The prices bound every allocation from above,

.. math:: L(\lambda) = \sum_c \lambda_c\,\mathrm{capacity}_c + \sum_j \max_n \bigl(V_j(n) - \lambda \cdot n\bigr).

From there to whole trainers:

1. *Share out*: the combination says of nearly all trainers how they change; what each of them gets then is a flow,
   and flows are whole (``whole_plans.py``).
2. *Branch*, where that is not good enough (Barnhart et al. 1998): what the combination does in part is done, or is
   not (``splitting.py``); columns are generated anew for both, the better bound first.
3. *Prove*: a column worth less than its trainer's best by more than the bound lies above a known allocation
   is in no better one. Where few are left, the best combination of them is the optimum.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from freetrain.core.decision import GOOD_ENOUGH
from freetrain.policies.solver.answer import Answer
from freetrain.policies.solver.bidders import Bidders
from freetrain.policies.solver.limits import Limits, no_limits
from freetrain.policies.solver.master import Master, Plan
from freetrain.policies.solver.replies import Replies, best_replies
from freetrain.policies.solver.splitting import Halves, split
from freetrain.policies.solver.whole_plans import whole_plans

_EXACT = 1e-9
"""Relative difference of values that counts as none."""
_MOST_ROUNDS = 200
"""Times that columns are generated for the relaxed combination, where they stop getting better long before."""
_SOUGHT = GOOD_ENOUGH / 2
_FIRST_BRANCHES = 10
"""So long that much is sought, which is often there at once; then what is good enough ends the search."""
_MOST_BRANCHES = 200
"""Of the search for a plan that is good enough."""
_FEW_COLUMNS = 200
"""So many more columns can HiGHS combine with proof in a moment."""
_LAST_BRANCHES = 1000
"""Of the search for that proof, at most."""

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


@dataclass(slots=True)
class _Best:
    """The best plan so far, what it is worth, and how close to the bound that has to be."""

    plan: Plan
    value: float
    gap: float = _SOUGHT

    @property
    def enough(self) -> float:
        """A bound at which it is good enough."""
        return self.value + self.gap * abs(self.value)

    def take_if_better(self, plan: Plan, bidders: Bidders) -> None:
        """Go on with another plan, where that is worth more."""
        value = _value_of(bidders, plan)
        if value > self.value:
            self.plan, self.value = plan, value


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
    root = _generate(master, bidders, no_limits(bidders), -np.inf, left_s)
    nobody = [np.zeros((number, len(bidders.capacity)), np.int64) for number in bidders.number.tolist()]
    best = _Best(nobody, _value_of(bidders, nobody))
    bound = _branch(master, bidders, root, best, left_s)
    if bound - best.value > _EXACT * max(1.0, abs(bound)) and left_s() > 0:
        master.allow(no_limits(bidders))
        if _add_all_within(root.bound - best.value, root.replies, master):
            master.add_plan(best.plan)
            plan, best_of_these = master.whole(best.plan, _EXACT * abs(bound), _LAST_BRANCHES, left_s())
            bound = min(bound, max(best_of_these, best.value))
            best.take_if_better(plan, bidders)
    return best.plan, max(bound, best.value)


def _begin(bidders: Bidders) -> Master:
    """A master that knows what is always possible: that nobody gets anything, and what is now."""
    master = Master(bidders)
    held = bidders.held_by_kind
    master.add_all(np.zeros_like(held))
    master.add_all(held)
    return master


def _generate(master: Master, bidders: Bidders, limits: Limits, enough: float, left_s: Clock) -> _Relaxed:
    """Add columns until the prices say that no other is better, or that nothing is worth more than is enough.

    Args:
        master: the columns known, and to which others are added.
        bidders: the trainers.
        limits: of what they may have.
        enough: a bound that need not be any lower.
        left_s: wall seconds that are left.
    """
    master.allow(limits)
    best = None
    for _ in range(_MOST_ROUNDS):
        worth, duals, _ = master.relax()
        replies = best_replies(bidders, duals, limits)
        bound = duals.bound(bidders, replies, limits)
        if best is None or bound < best.bound:
            best = _Relaxed(bound, replies)
        is_best = best.bound <= max(enough, worth + _EXACT * max(1.0, abs(worth)))
        if is_best or not master.add_all(replies.counts) or left_s() <= 0:
            break
    assert best is not None
    return best


def _branch(master: Master, bidders: Bidders, root: _Relaxed, best: _Best, left_s: Clock) -> float:
    """Look for a better plan, where the bound is highest, until it is good enough; the bound that is left."""
    limits, bound, settled = no_limits(bidders), root.bound, -np.inf
    waiting: list[tuple[float, int, Limits]] = []
    for number in itertools.count():
        is_first = number == 0
        if number == _FIRST_BRANCHES:
            best.gap = GOOD_ENOUGH
        halves = _look(master, bidders, limits, bound, best, is_first, left_s) if bound > best.enough else None
        if halves is None:
            settled = max(settled, bound)
        else:
            for which, half in enumerate(halves):
                heapq.heappush(waiting, (-bound, 2 * number + which, half))
        if not waiting or -waiting[0][0] <= best.enough or number == _MOST_BRANCHES or left_s() <= 0:
            break
        minus, _, limits = heapq.heappop(waiting)
        bound = min(-minus, _generate(master, bidders, limits, best.enough, left_s).bound)
    return max(settled, best.value, *(-minus for minus, _, _ in waiting))


def _look(
    master: Master, bidders: Bidders, limits: Limits, bound: float, best: _Best, is_first: bool, left_s: Clock
) -> Halves | None:
    """Make whole plans of the combination, at first all and then one each, and split what is not clear in it."""
    _, duals, taken = master.relax()
    plan = best.plan
    for plan in whole_plans(master, bidders, taken, limits, left_s):
        best.take_if_better(plan, bidders)
        if bound <= best.enough or not is_first:
            break
    return split(master, bidders, (duals.nodes, taken), plan, limits)


def _add_all_within(slack: float, replies: Replies, master: Master) -> bool:
    """Add every column that is worth so much less than its kind's best; whether few enough to add all."""
    known = len(master)
    for kind in range(len(replies.value)):
        for column in replies.nearly_best(kind, slack):
            master.add(kind, column)
            if len(master) - known > _FEW_COLUMNS:
                return False
    return True


def _value_of(bidders: Bidders, plan: Plan) -> float:
    return sum(float(bidders.values_of(kind, each).sum()) for kind, each in enumerate(plan))
