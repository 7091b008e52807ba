"""What a placer is, and the one that needs to know nothing."""

from __future__ import annotations

from typing import Protocol

from freetrain.core.placement import Placement, place
from freetrain.core.problem import Counts, Problem


class Placer(Protocol):
    """Decides which nodes each trainer gets, once a policy has decided how many."""

    def place(self, problem: Problem, counts: Counts) -> Placement:
        """So many nodes of each class for each trainer; the same arguments always give the same ones.

        A trainer that grows keeps its nodes, and one that does not gets no new one. The order of a trainer's
        nodes is the order of its ranks.
        """


class FirstNodes:
    """Takes the first nodes, idle ones before those that another trainer gives up."""

    def place(self, problem: Problem, counts: Counts) -> Placement:
        """The first nodes of each class."""
        return place(problem, counts)


FIRST_NODES = FirstNodes()
