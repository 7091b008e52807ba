"""Supply: the idle nodes of a problem, put together in classes whose nodes are interchangeable."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from freetrain.core.problem import Problem

Counts = NDArray[np.int64]
"""Nodes of each trainer in each class, shape (trainers, classes)."""


@dataclass(frozen=True)
class NodeClass:
    """Nodes that are expected to be taken back at the same time.

    Attributes:
        life_s: how long they are expected to stay, at most the horizon.
        taken_back: whether they leave before the horizon ends (and hurt whoever has them).
        names: holder (None: nobody) → names of the nodes it holds, in the problem's order.
    """

    life_s: float
    taken_back: bool
    names: Mapping[str | None, list[str]]

    @cached_property
    def count(self) -> int:
        """Number of nodes in the class."""
        return sum(map(len, self.names.values()))


@dataclass(frozen=True)
class Supply:
    """The problem's nodes by class, the longest-lived class first; nodes already due back are left out."""

    problem: Problem
    classes: tuple[NodeClass, ...]

    @cached_property
    def held(self) -> Counts:
        """Nodes that each trainer holds now, by class."""
        held = np.zeros((len(self.problem.trainers), len(self.classes)), dtype=np.int64)
        row = {trainer.id: position for position, trainer in enumerate(self.problem.trainers)}
        for column, node_class in enumerate(self.classes):
            for holder, names in node_class.names.items():
                if holder is not None:
                    held[row[holder], column] = len(names)
        return held

    @cached_property
    def capacity(self) -> NDArray[np.int64]:
        """Nodes in each class, shape (classes,)."""
        return np.array([node_class.count for node_class in self.classes], dtype=np.int64)

    @cached_property
    def node_count(self) -> int:
        """Nodes in all classes."""
        return int(self.capacity.sum())


def supply_of(problem: Problem) -> Supply:
    """Put the problem's nodes together by the time they are expected to stay."""
    horizon_end_s = problem.now_s + problem.horizon_s
    by_end: dict[float, dict[str | None, list[str]]] = defaultdict(lambda: defaultdict(list))
    for node in problem.nodes:
        end_s = horizon_end_s if node.free_until_s is None else min(node.free_until_s, horizon_end_s)
        by_end[end_s][node.held_by].append(node.name)
    return Supply(
        problem,
        tuple(
            NodeClass(end_s - problem.now_s, end_s < horizon_end_s, by_end[end_s])
            for end_s in sorted(by_end, reverse=True)
            if end_s > problem.now_s
        ),
    )
