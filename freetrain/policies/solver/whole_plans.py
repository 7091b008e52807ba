"""Whole plans: what each trainer gets by itself, where the relaxed combination mixes columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import inf

import numpy as np
from numpy.typing import NDArray

from freetrain.core.problem import Counts
from freetrain.core.value import ends_of
from freetrain.policies.solver.bidders import Bidders
from freetrain.policies.solver.limits import Limits
from freetrain.policies.solver.master import Master, Plan, Times
from freetrain.policies.solver.sharing_out import Change, share_out

WHOLE = 1e-6
"""As much may a number of trainers lie beside a whole one."""

Taken = NDArray[np.float64]
"""How often each column is taken in the relaxed combination, shape (columns,)."""


def whole_plans(
    master: Master, bidders: Bidders, taken: Taken, limits: Limits, left_s: Callable[[], float]
) -> Iterator[Plan]:
    """Plans in which each trainer changes as the combination mostly says.

    First those share out nodes whose columns it mixes, and all others get what it says; then, in the time that is
    left, all do.
    """
    whole = np.floor(taken + WHOLE).astype(np.int64)
    yield from _plans(master, bidders, taken, whole, limits, inf)
    if left_s() > 0:
        yield from _plans(master, bidders, taken, np.zeros_like(whole), limits, left_s())


def _plans(
    master: Master, bidders: Bidders, taken: Taken, fixed: Times, limits: Limits, time_limit_s: float
) -> Iterator[Plan]:
    """The plan in which those share out nodes whose columns are not fixed, if one is found."""
    plan, kinds, counts = master.plan_of(fixed), master.kinds, master.counts
    mixed, whose = taken - fixed, []
    changes: list[Change] = []
    for kind, each in enumerate(plan):
        more = int(bidders.number[kind]) - len(each)
        if more:
            some = np.flatnonzero((kinds == kind) & (mixed > WHOLE))
            changes += _changes(bidders, kind, counts[some], mixed[some], more)
            whose += [kind] * more
    if not changes:
        yield plan
        return
    given = share_out(bidders.on(bidders.capacity - fixed @ counts), changes, limits, time_limit_s)
    if given is not None:
        yield [np.concatenate([each, given[np.array(whose) == kind]]) for kind, each in enumerate(plan)]


def _changes(bidders: Bidders, kind: int, columns: Counts, shares: Taken, number: int) -> Iterator[Change]:
    """How so many trainers of a kind change, by how often each of these columns is taken."""
    share_of: dict[Change, float] = {}
    for column, share in zip(columns, shares.tolist(), strict=True):
        change = _change_by(bidders, kind, column)
        share_of[change] = share_of.get(change, 0.0) + share
    for _ in range(number):
        change = max(share_of, key=share_of.__getitem__)
        share_of[change] -= 1.0
        yield change


def _change_by(bidders: Bidders, kind: int, column: Counts) -> Change:
    """How a trainer changes that gets these nodes."""
    return bidders.once(("change", kind, column.tobytes()), lambda: _change_to(bidders, kind, column))


def _change_to(bidders: Bidders, kind: int, column: Counts) -> Change:
    bid, first = bidders.bid_of(kind, column), bidders.first_of_life
    ends = ends_of(column, first)[np.searchsorted(first, first, side="right") - 1]
    keeps = bool((column == bidders.held[bid]).all())
    return Change(bid, bool(column.sum() > bidders.held[bid].sum()), tuple(ends.tolist()), keeps)
