"""Decisions: the allocation that a policy answers, its placement, and the decision that is made of both.

An *allocation* is counts of nodes by class, before anything is checked, valued or placed; a *placement* says which
nodes; a *decision* is the answer to a problem, with what is to be known about how it was found. Its JSON form,
``freetrain-result/1``, is described in docs/reference/formats.md.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import numpy as np

from freetrain.core.problem import Counts, Problem
from freetrain.core.trainer import Serving, Trainer

Placement = Mapping[str, tuple[str, ...]]
"""Trainer → its nodes; trainers without a node are left out."""

NodeChooser = Callable[[Sequence[str], int, Sequence[str]], Sequence[str]]
"""A choice of nodes: as many of those that are there, for a trainer that has or gets others besides."""


def first_nodes(there: Sequence[str], count: int, beside: Sequence[str]) -> Sequence[str]:
    """The first nodes that are there, whatever the trainer has besides."""
    return there[:count]


def place(problem: Problem, counts: Counts, choose: NodeChooser = first_nodes) -> Placement:
    """Turn counts per class into nodes, by the same choice for all trainers (:func:`place_each`)."""
    return place_each(problem, counts, lambda trainer: choose)


def place_each(problem: Problem, counts: Counts, choice_of: Callable[[Trainer], NodeChooser]) -> Placement:
    """Turn counts per class into nodes.

    1. A trainer that has more nodes of a class than it is to have keeps those that are chosen; who is to have what
       it has keeps it.
    2. Then those that are missing are chosen, in order of admission, of the free nodes and those that
       are given up; the former come first, so that taking the first ones waits for as few releases as possible.
    """
    chosen: defaultdict[str, list[list[str]]] = defaultdict(lambda: [[] for _ in problem.classes])
    there = [list(node_class.names.get(None, [])) for node_class in problem.classes]
    wanted = []
    # Most trainers keep what they have in most decisions: only the others are placed.
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
        # The usual choice, for which a list of thousands of nodes need not be searched.
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


RESULT_FORMAT = "freetrain-result/1"
GOOD_ENOUGH = 1e-3
"""Relative gap at which a solver may stop: what is missing is less than what a second's delay costs."""


class Status(StrEnum):
    """Quality of a decision, as far as it is known."""

    OPTIMAL = "optimal"
    """Proven: no allocation is worth more."""
    FEASIBLE = "feasible"
    """The best answer known when it was good enough, its time ran out or its proof was refuted; see ``gap``."""
    FALLBACK = "fallback"
    """The solver gave no usable answer, so a simpler method's stands in; the notes say why."""
    HEURISTIC = "heuristic"
    """A policy's that claims no optimum."""


@dataclass(frozen=True, slots=True)
class Decision:
    """A decision: the nodes of each trainer, their value, and the solver that found them.

    Attributes:
        objective: value of the allocation (``freetrain.core.value``).
        gap: relative distance to the best bound known; 0 where proven optimal, None where unknown.
        serving: nodes of each trainer that have a server.
    """

    status: Status
    objective: float
    placement: Placement
    solver: str
    gap: float | None = None
    solve_s: float = 0.0
    notes: tuple[str, ...] = ()
    serving: Serving = field(default_factory=dict)


def decision_to_dict(decision: Decision) -> dict[str, Any]:
    """The decision in its JSON form."""
    serving = {trainer: list(nodes) for trainer, nodes in decision.serving.items()}
    return {
        "format": RESULT_FORMAT,
        "status": str(decision.status),
        "objective": decision.objective,
        "gap": decision.gap,
        "solve_s": decision.solve_s,
        "solver": decision.solver,
        "allocation": {trainer: list(nodes) for trainer, nodes in decision.placement.items()},
        "notes": list(decision.notes),
        **({"serving": serving} if serving else {}),
    }


@dataclass(frozen=True, slots=True, eq=False)
class Allocation:
    """A policy's answer: the number of nodes of each class that each trainer is to have.

    Attributes:
        counts: integers of shape (trainers, classes), in the problem's order of both.
        bound: no allocation is worth more than this (``freetrain.core.value``); None: no such bound is known.

    Raises:
        TypeError: the counts are no integers, or another part is not of its kind.
        ValueError: the bound is not a number, or there is no such status.
    """

    counts: Counts
    solver: str
    status: Status = Status.HEURISTIC
    bound: float | None = None
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        # Checked here, since a package's policy may not have checked its types.
        counts = np.asarray(self.counts)
        if counts.dtype.kind not in "iu":
            raise TypeError(f"counts must be integers, not {counts.dtype}")
        if self.bound is not None:
            if math.isnan(self.bound):
                raise ValueError("bound must be a number or None, not nan")
            object.__setattr__(self, "bound", float(self.bound))
        if not isinstance(self.solver, str):
            raise TypeError(f"solver must be a string, not a {type(self.solver).__name__}")
        if not isinstance(self.notes, tuple) or not all(isinstance(note, str) for note in self.notes):
            raise TypeError("notes must be a tuple of strings")
        # Frozen: what was checked can only be set so.
        object.__setattr__(self, "counts", counts.astype(np.int64, copy=False))
        object.__setattr__(self, "status", Status(self.status))
