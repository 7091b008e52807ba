"""Deciding: a policy's answer, timed and verified, or the present state where the answer is wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from freetrain.core.decision import Decision, Status
from freetrain.core.placement import place
from freetrain.core.problem import Problem
from freetrain.core.value import total_value
from freetrain.core.verify import verify
from freetrain.policies import Policy
from freetrain.policies.spread import spread


def decide(policy: Policy, problem: Problem, stopwatch_s: Callable[[], float]) -> Decision:
    """The policy's decision if it passes verification, else one that changes as little as possible."""
    start_s = stopwatch_s()
    decision = policy.decide(problem)
    solve_s = stopwatch_s() - start_s
    if wrong := verify(problem, decision):
        decision = stay(problem, f"the decision of {decision.solver} was rejected: {'; '.join(wrong)}")
    return replace(decision, solve_s=solve_s, notes=(*decision.notes, *problem.warnings))


def stay(problem: Problem, why: str) -> Decision:
    """Leave every trainer what it has; only what is outside a trainer's limits is given up."""
    sizes = problem.held_nodes.copy()
    for row, trainer in enumerate(problem.trainers):
        sizes[row] = min(sizes[row], trainer.most_nodes) if sizes[row] >= trainer.min_nodes else 0
    counts = spread(problem, sizes) if problem.held.size else problem.held
    return Decision(Status.FALLBACK, total_value(problem, counts), place(problem, counts), "stay", notes=(why,))
