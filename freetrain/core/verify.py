"""Verification: no decision is used, live or in a replay, before it has passed here."""

from __future__ import annotations

import math
from collections.abc import Iterator

from freetrain.core.decision import Decision
from freetrain.core.placement import Placement
from freetrain.core.problem import Problem
from freetrain.core.supply import supply_of
from freetrain.core.value import counts_of, total_value

VALUE_TOLERANCE = 1e-6


def verify(problem: Problem, decision: Decision) -> tuple[str, ...]:
    """What is wrong with a decision, one sentence each; empty where it may be used.

    Checked are: only nodes of the problem, one owner per node, sizes within each trainer's limits, no
    migration (a trainer keeps all its nodes or gets no new one), and the value that the policy claims.
    """
    wrong = (
        *_foreign_or_shared_nodes(problem, decision.placement),
        *_sizes_and_migrations(problem, decision.placement),
    )
    return wrong or tuple(_wrong_value(problem, decision))


def _foreign_or_shared_nodes(problem: Problem, placement: Placement) -> Iterator[str]:
    known = {node.name for node in problem.nodes}
    owned: set[str] = set()
    for trainer, names in placement.items():
        mine = set(names)
        if foreign := mine - known:
            yield f"trainer {trainer} gets {min(foreign)}, which is not among the problem's nodes"
        if shared := mine & owned or len(mine) < len(names):
            yield f"trainer {trainer} gets {min(shared) if isinstance(shared, set) else 'a node'} twice over"
        owned |= mine


def _sizes_and_migrations(problem: Problem, placement: Placement) -> Iterator[str]:
    held: dict[str, set[str]] = {trainer.id: set() for trainer in problem.trainers}
    for node in problem.nodes:
        if node.held_by is not None and (node.free_until_s is None or node.free_until_s > problem.now_s):
            held[node.held_by].add(node.name)
    if strangers := placement.keys() - held.keys():
        yield f"{min(strangers)} is none of the problem's trainers"
    for trainer in problem.trainers:
        names = placement.get(trainer.id, ())
        if names and not trainer.min_nodes <= len(names) <= trainer.most_nodes:
            yield (
                f"trainer {trainer.id} gets {len(names)} nodes, outside its "
                f"{trainer.min_nodes} to {trainer.most_nodes}"
            )
        now, then = held[trainer.id], set(names)
        if not now <= then and not then <= now:
            yield f"trainer {trainer.id} would migrate: it loses {min(now - then)} and gains {min(then - now)}"


def _wrong_value(problem: Problem, decision: Decision) -> Iterator[str]:
    supply = supply_of(problem)
    value = total_value(supply, counts_of(supply, decision.placement))
    if not math.isclose(value, decision.objective, rel_tol=VALUE_TOLERANCE, abs_tol=VALUE_TOLERANCE):
        yield f"the decision claims a value of {decision.objective:g}, its placement is worth {value:g}"
