"""What a policy is."""

from __future__ import annotations

from typing import Protocol

from freetrain.core.decision import Decision
from freetrain.core.problem import Problem


class Policy(Protocol):
    """Decides who gets which idle node. Adding one takes one file: see docs/policies.md."""

    def decide(self, problem: Problem) -> Decision:
        """The policy's answer; the same problem always gets the same one."""
