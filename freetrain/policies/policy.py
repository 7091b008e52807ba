"""What a policy is."""

from __future__ import annotations

from typing import Protocol

from freetrain.core.allocation import Allocation
from freetrain.core.problem import Problem

NEEDS_PROGRESS = "needs_progress"
"""Attribute that is true of policies that decide by ``Problem.done_samples``."""


class Policy(Protocol):
    """Decides how many nodes each trainer gets. docs/policies.md shows a whole one."""

    def decide(self, problem: Problem) -> Allocation:
        """The policy's answer; the same problem always gets the same one."""
