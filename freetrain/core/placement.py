"""Placement: which nodes, once it is decided how many."""

from __future__ import annotations

from collections.abc import Mapping

from freetrain.core.classes import NodeClass
from freetrain.core.problem import Counts, Problem

Placement = Mapping[str, tuple[str, ...]]
"""Trainer → its nodes; trainers without a node are left out."""


def place(problem: Problem, counts: Counts) -> Placement:
    """Turn counts per class into nodes.

    A trainer that keeps some of its nodes keeps the first ones. Nodes that nobody holds are handed out before
    those that another trainer gives up, so that a plan waits for as few releases as possible.
    """
    placement: dict[str, list[str]] = {trainer.id: [] for trainer in problem.trainers}
    for node_class, sizes in zip(problem.classes, counts.T.tolist(), strict=True):
        _place_class(problem, node_class, sizes, placement)
    return {trainer: tuple(names) for trainer, names in placement.items() if names}


def _place_class(
    problem: Problem, node_class: NodeClass, sizes: list[int], placement: dict[str, list[str]]
) -> None:
    given_up: list[str] = []
    wanted: list[tuple[str, int]] = []
    for trainer, size in zip(problem.trainers, sizes, strict=True):
        held = node_class.names.get(trainer.id, [])
        placement[trainer.id] += held[:size]
        given_up += held[size:]
        if size > len(held):
            wanted.append((trainer.id, size - len(held)))
    available = [*node_class.names.get(None, []), *given_up]
    taken = 0
    for trainer_id, missing in wanted:
        placement[trainer_id] += available[taken : taken + missing]
        taken += missing
