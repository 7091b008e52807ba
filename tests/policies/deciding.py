"""What a policy decides, for tests."""

from __future__ import annotations

from freetrain.core.decision import Decision
from freetrain.core.problem import Problem
from freetrain.loop import deciding
from freetrain.policies import Policy


def decide(policy: Policy, problem: Problem) -> Decision:
    """The policy's own decision, never one that stands in for it."""
    decision = deciding.decide(policy, problem, lambda: 0.0)
    assert decision.solver != deciding.STAY, decision.notes
    return decision
