"""Splitting: two ways for trainers of a kind to go, between which the relaxed combination lies."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import numpy as np

from freetrain.core.problem import Counts
from freetrain.core.terms import Sizes
from freetrain.policies.solver.bidders import Bidders
from freetrain.policies.solver.limits import Limits
from freetrain.policies.solver.master import Master, Plan
from freetrain.policies.solver.over_classes import Prices
from freetrain.policies.solver.whole_plans import WHOLE, Taken

Halves = tuple[Limits, Limits]
"""Limits that exclude each other, and outside of which there is no whole plan."""

_MOST_KINDS = 2
"""Kinds that may be split in each of the two ways; each split costs two runs of the master programme at least."""


def splits(
    master: Master, bidders: Bidders, relaxed: tuple[Prices, Taken], plan: Plan, limits: Limits
) -> Iterator[Halves]:
    """Split what trainers may do: how many grow, which ends they pay for, or a size; none: all is clear.

    Several kinds together come first; then, for each way to split one, those that a plan gives least of what the
    combination promises them.

    Args:
        master: the columns.
        bidders: the trainers.
        relaxed: the prices, and how often the combination takes each column.
        plan: a whole one.
        limits: within which all that is.
    """
    prices, taken = relaxed
    kinds, counts = master.kinds, master.counts
    mixed = np.unique(kinds[np.abs(taken - np.rint(taken)) > WHOLE]).tolist()
    promised = np.bincount(kinds, taken * (master.values - counts @ prices))
    missed = {
        kind: promised[kind] - float((bidders.values_of(kind, plan[kind]) - plan[kind] @ prices).sum())
        for kind in mixed
    }
    order = sorted(missed, key=missed.__getitem__, reverse=True)
    columns = {kind: (kinds == kind) & (taken > WHOLE) for kind in order}
    of = {kind: (kind, counts[its], taken[its], limits) for kind, its in columns.items()}
    yield from islice(_by_growth_together(bidders, kinds, counts, taken, limits), _MOST_KINDS)
    for split in (_by_end, _by_growth, _by_size):
        yield from islice(filter(None, (split(bidders, *of[kind]) for kind in order)), _MOST_KINDS)


def _by_growth_together(
    bidders: Bidders, kinds: Sizes, counts: Counts, taken: Taken, limits: Limits
) -> Iterator[Halves]:
    """At most so many of several kinds grow together, or more."""
    grows = counts.sum(axis=1) > bidders.held_by_kind.sum(axis=1)[kinds]
    several = np.arange(len(bidders.number), len(bidders.groups))[::-1]
    numbers = bidders.groups[several] @ np.bincount(kinds[grows], taken[grows], minlength=len(bidders.number))
    for group, number in zip(several.tolist(), numbers.tolist(), strict=True):
        whole = int(np.floor(number + WHOLE))
        if number - whole > WHOLE:
            yield limits.at_most_growing(group, whole), limits.more_growing_than(group, whole)


def _by_growth(bidders: Bidders, kind: int, columns: Counts, shares: Taken, limits: Limits) -> Halves | None:
    """At most so many of them grow, or more; or the only one makes no other bid, or does not grow by this one."""
    bids, held = bidders.bids_of(kind), int(bidders.held_by_kind[kind].sum())
    grows = columns.sum(axis=1) > held
    number = float(shares[grows].sum())
    whole = int(np.floor(number + WHOLE))
    if number - whole > WHOLE:
        return limits.at_most_growing(kind, whole), limits.more_growing_than(kind, whole)
    growing = {bidders.bid_of(kind, column) for column in columns[grows]}
    if len(growing) < 2 or bidders.number[kind] > 1:
        return None
    bid = min(growing)
    others = [each for each in bids if each != bid]
    return limits.without(others), limits.at_most([bid], len(bidders.last_of_life) - 1, held)


def _by_end(bidders: Bidders, kind: int, columns: Counts, shares: Taken, limits: Limits) -> Halves | None:
    """The only one has no nodes that leave at a time, or some."""
    if bidders.number[kind] > 1:
        return None
    leave = np.diff(bidders.sizes_of(columns), axis=1, prepend=0) > 0
    some = shares @ leave / shares.sum()
    time = int(np.minimum(some, 1 - some).argmax())
    if not WHOLE < some[time] < 1 - WHOLE:
        return None
    bids = bidders.bids_of(kind)
    return limits.with_end(bids, time, -1), limits.with_end(bids, time, 1)


def _by_size(bidders: Bidders, kind: int, columns: Counts, shares: Taken, limits: Limits) -> Halves | None:
    """Where the columns of the only one differ most, it has at most as many nodes as on average, or more."""
    if bidders.number[kind] > 1:
        return None
    sizes, bids = bidders.sizes_of(columns), bidders.bids_of(kind)
    mean = shares @ sizes / shares.sum()
    apart = shares @ np.abs(sizes - mean)
    time = int(apart.argmax())
    if apart[time] <= WHOLE:
        return None
    size = int(np.floor(mean[time] + WHOLE))
    return limits.at_most(bids, time, size), limits.more_than(bids, time, size)
