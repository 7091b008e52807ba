"""What a policy is."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from freetrain.core.allocation import Allocation
from freetrain.core.problem import Problem
from freetrain.core.terms import Table

NEEDS_PROGRESS = "needs_progress"
"""Attribute that is true of policies that decide by ``Problem.done_samples``."""


class Policy(Protocol):
    """Decides how many nodes each trainer gets. docs/policies.md shows a whole one."""

    def decide(self, problem: Problem) -> Allocation:
        """The policy's answer; the same problem always gets the same one."""


@runtime_checkable
class Weighing(Protocol):
    """A policy that weighs sizes by a value of its own instead of the objective; 'freetrain explain' shows it.

    Attributes:
        weighs: what it weighs, a few words.
    """

    weighs: str

    def weigh(self, problem: Problem) -> Table:
        """The value of each trainer's sizes, shape (trainers, sizes); of impossible sizes it means nothing."""
