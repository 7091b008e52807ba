"""Placement: which nodes, once it is decided how many."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from freetrain.core.problem import Counts, Problem
from freetrain.core.trainer import Trainer

Placement = Mapping[str, tuple[str, ...]]
"""Trainer → its nodes; trainers without a node are left out."""

Choice = Callable[[Sequence[str], int, Sequence[str]], Sequence[str]]
"""A choice of nodes: as many of those that are there, for a trainer that has or gets others besides."""


def first_nodes(there: Sequence[str], count: int, beside: Sequence[str]) -> Sequence[str]:
    """The first ones, whatever the trainer has besides."""
    return there[:count]


def place(problem: Problem, counts: Counts, choose: Choice = first_nodes) -> Placement:
    """Turn counts per class into nodes, by the same choice for all trainers (:func:`place_each`)."""
    return place_each(problem, counts, lambda trainer: choose)


def place_each(problem: Problem, counts: Counts, choice_of: Callable[[Trainer], Choice]) -> Placement:
    """Turn counts per class into nodes.

    1. A trainer that has more nodes of a class than it is to have keeps those that are chosen; who is to have what
       it has keeps it.
    2. Then those that are missing are chosen, in order of admission, of the free nodes and those that
       are given up; the former come first, so that taking the first ones waits for as few releases as possible.

    Args:
        problem: what is decided.
        counts: nodes of each trainer in each class.
        choice_of: by which each trainer keeps, or gets, some of several nodes.
    """
    chosen: defaultdict[str, list[list[str]]] = defaultdict(lambda: [[] for _ in problem.classes])
    there = [list(node_class.names.get(None, [])) for node_class in problem.classes]
    wanted = []
    for row in np.flatnonzero((counts != problem.held).any(axis=1)).tolist():
        trainer = problem.trainers[row]
        for column, (node_class, size) in enumerate(zip(problem.classes, counts[row].tolist(), strict=True)):
            held, mine = node_class.names.get(trainer.id, []), chosen[trainer.id]
            # What is kept is chosen as what is gained is: a placer may keep the nodes that lie close together.
            if size < len(held):
                mine[column] = list(choice_of(trainer)(held, size, _all(mine)))
                kept = set(mine[column])
                there[column] += [name for name in held if name not in kept]
            else:
                mine[column] = list(held)
            if size > len(held):
                wanted.append((column, row, size - len(held)))
    # By class, so that the nodes of the longest-lived one are chosen first.
    for column, row, missing in sorted(wanted):
        trainer = problem.trainers[row]
        mine = chosen[trainer.id]
        gained = list(choice_of(trainer)(there[column], missing, _all(mine)))
        if gained == there[column][:missing]:
            del there[column][:missing]
        else:
            taken = set(gained)
            there[column] = [name for name in there[column] if name not in taken]
        mine[column] += gained
    placed = {trainer: names for trainer, names in problem.held_names.items() if trainer in problem.row_of}
    placed |= {trainer: tuple(_all(mine)) for trainer, mine in chosen.items()}
    return {trainer: names for trainer, names in placed.items() if names}


def _all(by_class: Sequence[Sequence[str]]) -> list[str]:
    return [name for names in by_class for name in names]
