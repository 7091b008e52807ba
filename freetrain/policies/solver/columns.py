r"""Columns: the choices of trainers that matter, which HiGHS combines; and what whole trainers make of it.

There are too many choices to write down; those that matter are generated (Dantzig and Wolfe 1960): HiGHS combines
the known ones as a linear programme, its duals are prices of the nodes, and each trainer's best reply to them is a
new column, until none is better than what is known. The prices bound every allocation from above,

.. math:: L(\lambda) = \sum_c \lambda_c\,\mathrm{capacity}_c + \sum_j \max_n \bigl(V_j(n) - \lambda \cdot n\bigr).

From there to whole trainers:

1. *Share out*: the combination says of nearly all trainers how they change; what each of them gets then is a flow,
   and flows are whole (``whole_plans.py``).
2. *Join*, where that is not good enough: a plan that is worth little less than the bound has in it only columns
   that are worth little less than their trainers' best. Where few are, the best of all such plans is found by
   trying (``trying.py``, ``joining.py``): it is the optimum, or there is none, and the bound is that much lower.
3. *Branch* (Barnhart et al. 1998): what the combination does in part is done, or is not (``splitting.py``);
   columns are generated anew for both, the better bound first (``branching.py``).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from freetrain.core.decision import GOOD_ENOUGH
from freetrain.policies.solver.answer import Answer
from freetrain.policies.solver.best import Best, value_of
from freetrain.policies.solver.bidders import Bidders
from freetrain.policies.solver.branching import Search
from freetrain.policies.solver.generating import EXACT, Clock, generate
from freetrain.policies.solver.limits import no_limits
from freetrain.policies.solver.master import Master, Plan
from freetrain.policies.solver.trying import Trying

_MOST_APART = 4
"""So many trainers that do not differ are taken one by one, where it is not found out otherwise what each gets."""
_SLACKS = tuple(GOOD_ENOUGH / 2 * 3**each for each in range(5))
"""So far below the bound all plans are tried, relative to it, as long as those that matter may be few."""


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
    proven = bound - value_of(bidders, plan) <= EXACT * max(1.0, abs(bound))
    is_late = left_s() <= 0
    return Answer(counts, proven, bound, "its time had run out" if is_late else "", is_late)


def combine(bidders: Bidders, left_s: Clock) -> tuple[Plan, float]:
    """The same, kind by kind."""
    nobody = [np.zeros((number, len(bidders.capacity)), np.int64) for number in bidders.number.tolist()]
    best = Best(bidders, nobody, value_of(bidders, nobody))
    bound = _improve(best, left_s)
    apart = bidders.apart(_MOST_APART)
    if bound <= best.enough or len(apart.number) == len(bidders.number) or left_s() <= 0:
        return best.plan, bound
    # What one of several that do not differ gets cannot be split.
    each = Best(apart, _set_apart(best.plan), best.value)
    bound = min(bound, _improve(each, left_s))
    return _put_together(each.plan, bidders.number.tolist()), max(bound, each.value)


def _improve(best: Best, left_s: Clock) -> float:
    """Find a better plan, until it is good enough; the bound on all of them."""
    master, limits = _begin(best.bidders), no_limits(best.bidders)
    root, trying = generate(master, best.bidders, limits, left_s), Trying(best)
    search = Search(master, root, best, trying, left_s)
    search.make_plans()
    bound = root.bound
    for share in _SLACKS:
        good_enough = root.bound - best.enough
        if bound <= best.enough or left_s() <= 0 or not trying.is_worth_it(good_enough):
            break
        bound = min(bound, trying.bound_within(share * abs(root.bound), root, limits))
    if bound > best.enough:
        bound = search.run(bound)
    is_open = bound - best.value > EXACT * max(1.0, abs(bound)) and left_s() > 0
    if is_open and (bound > best.enough or trying.is_worth_it(root.bound - best.value)):
        bound = min(bound, trying.bound_within(np.inf, root, limits))
    return max(bound, best.value)


def _set_apart(plan: Plan) -> Plan:
    """The same plan for ``Bidders.apart``."""
    return [
        part for each in plan for part in (np.split(each, len(each)) if 1 < len(each) <= _MOST_APART else [each])
    ]


def _put_together(plan: Plan, number: Sequence[int]) -> Plan:
    """The same plan with so many trainers of each kind again."""
    rows = np.concatenate(plan)
    return np.split(rows, np.cumsum(number)[:-1])


def _begin(bidders: Bidders) -> Master:
    """A master that knows what is always possible: that nobody gets anything, and what is now."""
    master = Master(bidders)
    held = bidders.held_by_kind
    master.add_all(np.zeros_like(held))
    master.add_all(held)
    return master
