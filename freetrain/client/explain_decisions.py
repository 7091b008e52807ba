"""Why a training has as many nodes as it has: its last decision, and what another would have been worth."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf

import numpy as np

from freetrain.client.explain_aims import explain_aims
from freetrain.core.decision import Decision
from freetrain.core.problem import Counts, Problem
from freetrain.core.value import counts_of, total_value
from freetrain.policies import Weighing
from freetrain.policies.registry import Stage, find_entry, find_policy
from freetrain.showing.words import show_time, show_value


def explain_decision(trainer: str, name: str, problem: Problem, decision: Decision) -> Iterator[str]:
    """Sentences on a decision in which a trainer had a part.

    Args:
        trainer: its id, one of the problem's.
        name: of the decision, as ``12:480``.
        problem: what was decided.
        decision: the answer.
    """
    row = next(number for number, one in enumerate(problem.trainers) if one.id == trainer)
    sizes = {trainer.id: len(decision.placement.get(trainer.id, ())) for trainer in problem.trainers}
    others = [f", {id_} got {_nodes(size)}" for id_, size in sizes.items() if id_ != trainer and size]
    what = f"Decision {name} of {show_time(problem.now_s)} ({decision.solver}, {decision.status})"
    nodes, competing = _nodes(problem.node_count), len(problem.trainers)
    shared = f"shared {nodes} among {competing} trainings" if competing > 1 else f"had {nodes} for it alone"
    yield f"{what} {shared}: it got {_nodes(sizes[trainer])}{''.join(others[:5])}."
    yield from decision.notes
    counts = counts_of(problem, decision.placement)
    one = problem.trainers[row]
    yield from _weighed(decision.solver, problem, row, sizes[trainer])
    yield from explain_aims(row, problem, decision)
    if sizes[trainer] >= one.most_nodes:
        yield f"It can use no more than {_nodes(one.most_nodes)}."
    elif sentence := _one_more(problem, counts, row):
        yield sentence
    if 0 < one.min_nodes == sizes[trainer]:
        yield f"It cannot do with fewer than {_nodes(one.min_nodes)}."


def _weighed(solver: str, problem: Problem, row: int, size: int) -> Iterator[str]:
    """What a policy with a value of its own made of this size, of those beside it and of the best."""
    policy: object = find_policy(solver) if find_entry(Stage.POLICY, solver) else None
    if not isinstance(policy, Weighing):
        return
    values = policy.weigh(problem)[row]
    known = np.flatnonzero(problem.terms.possible[row] & (values > -inf)).tolist()
    sizes = [nodes for nodes in known if nodes <= problem.node_count]
    best = max(sizes, key=lambda nodes: values[nodes])
    beside = [nodes for nodes in sizes if abs(nodes - size) <= 1 or nodes == best]
    shown = ", ".join(f"{_nodes(nodes)} {values[nodes]:.4g}" for nodes in beside)
    yield f"{solver} weighed {policy.weighs}: {shown}."


def _one_more(problem: Problem, counts: Counts, row: int) -> str:
    """What another node would have been worth, nobody's or another trainer's."""
    now = total_value(problem, counts)
    free = problem.capacity - counts.sum(axis=0)
    found = [
        (total_value(problem, _moved(counts, row, giver, column)), giver)
        for column in range(counts.shape[1])
        for giver in (None, *range(len(counts)))
        if giver != row and (free[column] if giver is None else counts[giver, column]) > 0
    ]
    if not found:
        return ""  # the decision was about the nodes that it got: why there were no others, the look says
    best, donor = max(found, key=lambda one: one[0])
    source = "that nobody had" if donor is None else f"of {problem.trainers[donor].id}"
    if best == -inf:
        return (
            f"One more node, {source}, would leave somebody with a size, or kinds of nodes, that it cannot have."
        )
    worth = (
        f"{show_value(best)} instead of {show_value(now)} ({problem.objective}, over {problem.horizon_s:.0f} s)"
    )
    return f"With one more node, {source}, all would have been worth {worth}."


def _moved(counts: Counts, row: int, giver: int | None, column: int) -> Counts:
    moved = counts.copy()
    moved[row, column] += 1
    if giver is not None:
        moved[giver, column] -= 1
    return moved


def _nodes(count: int) -> str:
    return "1 node" if count == 1 else f"{count} nodes"
