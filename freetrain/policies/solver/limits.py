"""Limits: how many nodes each bid may have until each time at which some leave, and how many trainers may grow."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from freetrain.core.problem import Counts
from freetrain.core.terms import Sizes
from freetrain.policies.solver.bidders import Bidders

_NEVER = -1
"""The most nodes of a bid that is not made."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a branch of the search allows.

    Attributes:
        fewest: nodes that each bid has at least until each time, the last time first, shape (bids, times).
        most: nodes that it has at most until then, likewise.
        ends: whether it has any nodes that leave at each time: 1: some, -1: none, 0: either, likewise.
        fewest_growing: how many trainers of each group grow at least, shape (groups,).
        most_growing: how many of them grow at most, likewise.
    """

    fewest: Counts
    most: Counts
    ends: Counts
    fewest_growing: Sizes
    most_growing: Sizes

    def hold(self, bids: Counts, sizes: Counts) -> NDArray[np.bool_]:
        """Whether such bids, with so many nodes until each time, are allowed; both of as many rows."""
        within = (sizes >= self.fewest[bids]) & (sizes <= self.most[bids])
        if self.ends.any():
            leave = np.diff(sizes, axis=1, prepend=0) > 0
            within &= np.where(leave, self.ends[bids] >= 0, self.ends[bids] <= 0)
        return np.asarray(within.all(axis=1))

    def at_most(self, bids: list[int], time: int, size: int) -> Limits:
        """The same, and no more nodes until this time."""
        most = self.most.copy()
        most[bids, time] = np.minimum(most[bids, time], size)
        return replace(self, most=most)

    def more_than(self, bids: list[int], time: int, size: int) -> Limits:
        """The same, and more nodes until this time."""
        fewest = self.fewest.copy()
        fewest[bids, time] = np.maximum(fewest[bids, time], size + 1)
        return replace(self, fewest=fewest)

    def with_end(self, bids: list[int], time: int, sign: int) -> Limits:
        """The same, and some nodes that leave at this time, or with -1 none."""
        ends = self.ends.copy()
        ends[bids, time] = sign
        return replace(self, ends=ends)

    def without(self, bids: list[int]) -> Limits:
        """The same, and none of these bids."""
        most = self.most.copy()
        most[bids] = _NEVER
        return replace(self, most=most)

    def at_most_growing(self, group: int, number: int) -> Limits:
        """The same, and no more trainers of this group grow."""
        most = self.most_growing.copy()
        most[group] = min(most[group], number)
        return replace(self, most_growing=most)

    def more_growing_than(self, group: int, number: int) -> Limits:
        """The same, and more trainers of this group grow."""
        fewest = self.fewest_growing.copy()
        fewest[group] = max(fewest[group], number + 1)
        return replace(self, fewest_growing=fewest)


def no_limits(bidders: Bidders) -> Limits:
    """All that is possible."""
    shape = len(bidders.whose), len(bidders.last_of_life)
    fewest, most = np.zeros(shape, np.int64), np.full(shape, int(bidders.capacity.sum()))
    return Limits(fewest, most, np.zeros_like(fewest), np.zeros_like(bidders.in_group), bidders.in_group)
