r"""Sharing out: which nodes each trainer gets, once it is known how each of them changes.

What makes a decision hard is what is either so or not: of which choice a trainer's nodes are, whether it grows,
and which ends it pays for. A *change* says all that. What is left then is

.. math:: \max \sum_j \sum_i g_{ji}(N_{ji}) \quad\text{with}\quad N_{ji} = N_{j,i-1} + \sum_{c \in i} n_{jc},
    \quad \sum_j n_{jc} \le \mathrm{capacity}_c,

where :math:`n_{jc}` are the nodes of class *c* for trainer *j*, and :math:`N_{ji}` those that live until the time
*i*, the last time first. That is a flow (``flow.py``): nodes go from their class to the time at which they leave a
trainer, and on to each time before. On the way from one time to the next the value is piecewise linear. So where
:math:`g_{ji}` is concave the best flow is the optimum; elsewhere the concave hull of :math:`g_{ji}` stands for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import inf

import numpy as np

from freetrain.core.problem import Counts
from freetrain.core.terms import Table
from freetrain.policies.solver.bidders import Bidders
from freetrain.policies.solver.flow import NOWHERE, Flow
from freetrain.policies.solver.limits import Limits

_STRAIGHT = 1e-9
"""Relative change of slope that counts as none."""

Points = list[tuple[int, float]]
"""Sizes, ascending, and what they are worth."""


@dataclass(frozen=True, slots=True)
class Change:
    """How a trainer changes.

    Attributes:
        bid: which of its bids it gets nodes of.
        grows: whether it gets more nodes than it has; otherwise it gets none that it has not.
        ends: for each class, whether it may have nodes that leave when those of this class do.
        keeps: whether it keeps just what it has.
    """

    bid: int
    grows: bool
    ends: tuple[bool, ...]
    keeps: bool = False


def share_out(
    bidders: Bidders, changes: Sequence[Change], limits: Limits, time_limit_s: float = inf
) -> Counts | None:
    """Nodes of each class for trainers that change so, shape (changes, classes); None: none is found.

    Args:
        bidders: the trainers.
        changes: how each one changes that is to get nodes.
        limits: within which it does.
        time_limit_s: wall seconds.
    """
    fewest, most = _nodes_of(bidders, changes)
    free = bidders.capacity - fewest.sum(axis=0)
    if (free < 0).any():
        return None
    flow, gets = Flow(), []
    uses: list[int] = []
    times = [range(*each) for each in _classes_by_time(bidders)]
    allowed = most.tolist()
    for row, (change, begins, ends) in enumerate(
        zip(changes, *_sizes_of(bidders, changes, fewest, most, limits), strict=True)
    ):
        before, power = 0, bidders.now.power[change.bid].tolist()
        for time, (begin, end) in enumerate(zip(begins, ends, strict=True)):
            hull = _hull_of(bidders, change, time, begin, end)
            if not hull:
                return None
            place = len(free) + len(uses)
            for column in times[time]:
                if allowed[row][column]:
                    arc = flow.add(column, place, -power[column], allowed[row][column])
                    gets.append((arc, row, column))
            following = place + 1 if time + 1 < len(times) else NOWHERE
            for (size, worth), (larger, more) in pairwise(hull):
                flow.add(place, following, (more - worth) / (larger - size), larger - size)
            smallest = hull[0][0]
            uses.append(smallest - before - int(fewest[row, times[time]].sum()))
            before = smallest
    units = flow.solve(free, uses, time_limit_s)
    if units is None:
        return None
    arcs, rows, columns = np.array(gets, dtype=np.int64).reshape(-1, 3).T
    fewest[rows, columns] += units[arcs]
    return fewest


def _classes_by_time(bidders: Bidders) -> Iterator[tuple[int, int]]:
    """The first of the classes that leave at each time, and the first that does not."""
    last = bidders.last_of_life
    yield from zip(bidders.first_of_life[last].tolist(), (last + 1).tolist(), strict=True)


def _nodes_of(bidders: Bidders, changes: Sequence[Change]) -> tuple[Counts, Counts]:
    """Nodes of each class that each must get, and how many more it may, shape (changes, classes)."""
    bids, grows = [change.bid for change in changes], np.array([[change.grows] for change in changes])
    held, ends = bidders.held[bids], np.array([change.ends for change in changes])
    more = (bidders.capacity - held).clip(0) * bidders.joins[bids]
    keeps = np.array([[change.keeps] for change in changes])
    free = np.where(grows, more, np.minimum(held, bidders.capacity)) * ends
    return np.where(grows | keeps, held, 0), np.where(keeps, 0, free)


def _sizes_of(
    bidders: Bidders, changes: Sequence[Change], fewest: Counts, most: Counts, limits: Limits
) -> tuple[list[list[int]], list[list[int]]]:
    """Fewest and most nodes of each trainer until each time."""
    bids = [change.bid for change in changes]
    largest = [[int(np.flatnonzero(np.isfinite(_switching(bidders, change))).max())] for change in changes]
    begins = np.maximum(bidders.sizes_of(fewest), limits.fewest[bids])
    ends = np.minimum(np.minimum(bidders.sizes_of(fewest + most), largest), limits.most[bids])
    return begins.tolist(), ends.tolist()


def _hull_of(bidders: Bidders, change: Change, time: int, begin: int, end: int) -> Points:
    """The concave hull of what so many nodes until a time are worth; empty: none is possible."""
    pays_end = change.ends[int(bidders.last_of_life[time])]
    what = ("hull", change.bid, change.grows, change.keeps, time, pays_end, begin, end)
    return bidders.once(what, lambda: _hull_between(bidders, change, time, begin, end))


def _hull_between(bidders: Bidders, change: Change, time: int, begin: int, end: int) -> Points:
    bid, last = change.bid, int(bidders.last_of_life[time])
    use = bidders.booted if change.grows and bidders.booted is not None else bidders.now
    worth = bidders.worth[bid]
    bends = np.flatnonzero(np.abs(np.diff(worth, 2)) > _STRAIGHT * worth.max()) + 1
    useful_s = use.alone_s[bid, last] - change.ends[last] * use.end_s[bid, last]
    is_last = time == len(bidders.last_of_life) - 1
    value = useful_s * worth - (_switching(bidders, change) if is_last else 0.0)
    sizes = sorted({begin, *bends[(bends > begin) & (bends < end)].tolist(), end}) if begin <= end else []
    return _hull([(size, float(value[size])) for size in sizes if np.isfinite(value[size])])


def _switching(bidders: Bidders, change: Change) -> Table:
    """What the change to each size costs; it is paid for also where nothing changes in the end."""
    what = "switching", change.bid, change.grows, change.keeps
    return bidders.once(what, lambda: _switching_of(bidders, change))


def _switching_of(bidders: Bidders, change: Change) -> Table:
    costs: Table = bidders.switching[change.bid].copy()
    held = int(bidders.held[change.bid].sum())
    possible = np.flatnonzero(np.isfinite(costs))
    others = possible[possible > held] if change.grows else possible[possible < held][::-1]
    if len(others) and not change.keeps and held < len(costs):
        costs[held] = costs[others[0]]
    return costs


def _hull(points: Points) -> Points:
    """Those of the points over which there is no line between two others."""
    hull: Points = []
    for size, worth in points:
        while len(hull) > 1:
            (first, low), (middle, high) = hull[-2:]
            if (high - low) * (size - middle) > (worth - high) * (middle - first):
                break
            hull.pop()
        hull.append((size, worth))
    return hull
