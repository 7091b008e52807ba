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
        fewest_growing: how many trainers of each kind grow at least, shape (kinds,).
        most_growing: how many of them grow at most, likewise.
    """

    fewest: Counts
    most: Counts
    fewest_growing: Sizes
    most_growing: Sizes

    def hold(self, bids: Counts, sizes: Counts) -> NDArray[np.bool_]:
        """Whether such bids, with so many nodes until each time, are allowed; both of as many rows."""
        return np.asarray(((sizes >= self.fewest[bids]) & (sizes <= self.most[bids])).all(axis=1))

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

    def without(self, bids: list[int]) -> Limits:
        """The same, and none of these bids."""
        most = self.most.copy()
        most[bids] = _NEVER
        return replace(self, most=most)

    def at_most_growing(self, kind: int, number: int) -> Limits:
        """The same, and no more trainers of this kind grow."""
        most = self.most_growing.copy()
        most[kind] = min(most[kind], number)
        return replace(self, most_growing=most)

    def more_growing_than(self, kind: int, number: int) -> Limits:
        """The same, and more trainers of this kind grow."""
        fewest = self.fewest_growing.copy()
        fewest[kind] = max(fewest[kind], number + 1)
        return replace(self, fewest_growing=fewest)


def no_limits(bidders: Bidders) -> Limits:
    """All that is possible."""
    shape = len(bidders.whose), len(bidders.last_of_life)
    fewest, most = np.zeros(shape, np.int64), np.full(shape, int(bidders.capacity.sum()))
    return Limits(fewest, most, np.zeros_like(bidders.number), bidders.number)
