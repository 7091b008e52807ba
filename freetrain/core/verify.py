"""Verification: no decision is used, live or in a replay, before it has passed here."""

from __future__ import annotations

import math
from collections.abc import Iterator

from freetrain.core.decision import Decision
from freetrain.core.placement import Placement
from freetrain.core.problem import Problem
from freetrain.core.value import counts_of, total_value

VALUE_TOLERANCE = 1e-6


def verify(problem: Problem, decision: Decision) -> tuple[str, ...]:
    """What is wrong with a decision, one sentence each; empty where it may be used.

    Checked are: only nodes of the problem that are not due back, one owner per node, sizes within each
    trainer's limits, no migration (a trainer keeps all its nodes or gets no new one), and the value that the
    policy claims.
    """
    wrong = (
        *_foreign_or_shared_nodes(problem, decision.placement),
        *_sizes_and_migrations(problem, decision.placement),
    )
    return wrong or tuple(_wrong_value(problem, decision))


def _foreign_or_shared_nodes(problem: Problem, placement: Placement) -> Iterator[str]:
    lendable = problem.class_of_node.keys()
    lent = set().union(*placement.values())
    if foreign := lent - lendable:
        yield f"{min(foreign)} is lent, which is not among the problem's nodes or due back already"
    if len(lent) < sum(map(len, placement.values())):
        names = [name for names in placement.values() for name in names]
        yield f"{min(name for name in lent if names.count(name) > 1)} is lent twice over"


def _sizes_and_migrations(problem: Problem, placement: Placement) -> Iterator[str]:
    if strangers := placement.keys() - {trainer.id for trainer in problem.trainers}:
        yield f"{min(strangers)} is none of the problem's trainers"
    for trainer in problem.trainers:
        now, names = problem.held_names.get(trainer.id, ()), placement.get(trainer.id, ())
        if names and not trainer.min_nodes <= len(names) <= trainer.most_nodes:
            yield (
                f"trainer {trainer.id} gets {len(names)} nodes, outside its "
                f"{trainer.min_nodes} to {trainer.most_nodes}"
            )
        if now != names and not set(names).issubset(now) and not set(now).issubset(names):
            lost, gained = min(set(now).difference(names)), min(set(names).difference(now))
            yield f"trainer {trainer.id} would migrate: it loses {lost} and gains {gained}"


def _wrong_value(problem: Problem, decision: Decision) -> Iterator[str]:
    value = total_value(problem, counts_of(problem, decision.placement))
    if not math.isclose(value, decision.objective, rel_tol=VALUE_TOLERANCE, abs_tol=VALUE_TOLERANCE):
        yield f"the decision claims a value of {decision.objective:g}, its placement is worth {value:g}"
