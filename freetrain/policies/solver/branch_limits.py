"""Branch limits: bounds that a branch sets on the sizes of choices, on ends, and on the number that grow."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from freetrain.core.problem import Counts
from freetrain.core.terms import Sizes
from freetrain.policies.solver.trainer_types import TrainerTypes

_NEVER = -1
"""``max_nodes`` of a choice that is forbidden: not even no node."""


@dataclass(frozen=True, slots=True)
class BranchLimits:
    """What a branch of the search allows; a *time* is one at which nodes leave, the last time first.

    Attributes:
        min_nodes: nodes that each choice has at least until each time, shape (choices, times).
        max_nodes: nodes that it has at most until each time, likewise.
        ends: whether it has nodes that leave at each time (1: some, -1: none, 0: either), likewise.
        min_growing: trainers of each group that grow at least, shape (groups,).
        max_growing: trainers of each group that grow at most, likewise.
    """

    min_nodes: Counts
    max_nodes: Counts
    ends: Counts
    min_growing: Sizes
    max_growing: Sizes

    def allow(self, choices: Counts, sizes: Counts) -> NDArray[np.bool_]:
        """Whether each of these choices, with these sizes until each time (a row each), is allowed."""
        within = (sizes >= self.min_nodes[choices]) & (sizes <= self.max_nodes[choices])
        if self.ends.any():
            leave = np.diff(sizes, axis=1, prepend=0) > 0
            within &= np.where(leave, self.ends[choices] >= 0, self.ends[choices] <= 0)
        return np.asarray(within.all(axis=1))

    def at_most(self, choices: list[int], time: int, size: int) -> BranchLimits:
        """The same, with at most ``size`` nodes until this time."""
        max_nodes = self.max_nodes.copy()
        max_nodes[choices, time] = np.minimum(max_nodes[choices, time], size)
        return replace(self, max_nodes=max_nodes)

    def more_than(self, choices: list[int], time: int, size: int) -> BranchLimits:
        """The same, with more than ``size`` nodes until this time."""
        min_nodes = self.min_nodes.copy()
        min_nodes[choices, time] = np.maximum(min_nodes[choices, time], size + 1)
        return replace(self, min_nodes=min_nodes)

    def with_end(self, choices: list[int], time: int, sign: int) -> BranchLimits:
        """The same, with some nodes that leave at this time (``sign`` 1), or none (-1)."""
        ends = self.ends.copy()
        ends[choices, time] = sign
        return replace(self, ends=ends)

    def without(self, choices: list[int]) -> BranchLimits:
        """The same without these choices."""
        max_nodes = self.max_nodes.copy()
        max_nodes[choices] = _NEVER
        return replace(self, max_nodes=max_nodes)

    def at_most_growing(self, group: int, number: int) -> BranchLimits:
        """The same, with at most ``number`` growing trainers of this group."""
        max_growing = self.max_growing.copy()
        max_growing[group] = min(max_growing[group], number)
        return replace(self, max_growing=max_growing)

    def more_growing_than(self, group: int, number: int) -> BranchLimits:
        """The same, with more than ``number`` growing trainers of this group."""
        min_growing = self.min_growing.copy()
        min_growing[group] = max(min_growing[group], number + 1)
        return replace(self, min_growing=min_growing)


def no_limits(trainers: TrainerTypes) -> BranchLimits:
    """Limits of the root: everything that the nodes allow."""
    shape = len(trainers.type_of), len(trainers.last_of_life)
    min_nodes, max_nodes = np.zeros(shape, np.int64), np.full(shape, int(trainers.capacity.sum()))
    return BranchLimits(
        min_nodes, max_nodes, np.zeros_like(min_nodes), np.zeros_like(trainers.in_group), trainers.in_group
    )
