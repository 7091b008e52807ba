"""A decision: the answer to a problem, with what is to be known about how it was found.

Its JSON form, ``freetrain-result/1``, is described in docs/formats.md.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from freetrain.core.placement import Placement
from freetrain.core.servers import Serving

RESULT_FORMAT = "freetrain-result/1"
GOOD_ENOUGH = 1e-3
"""Relative gap at which a solver may stop: what is missing is less than what a second's delay costs."""


class Status(StrEnum):
    """How good the answer is known to be."""

    OPTIMAL = "optimal"
    """Proven: no allocation is worth more."""
    FEASIBLE = "feasible"
    """The best answer known when it was good enough, its time ran out or its proof was refuted; see ``gap``."""
    FALLBACK = "fallback"
    """The solver gave no usable answer, so a simpler method's stands in; the notes say why."""
    HEURISTIC = "heuristic"
    """From a policy that claims no optimum."""


@dataclass(frozen=True, slots=True)
class Decision:
    """Which trainer gets which nodes.

    Attributes:
        status: how good the answer is known to be.
        objective: its value (``freetrain.core.value``).
        placement: trainer → nodes.
        solver: what found it.
        gap: relative distance to the best bound known; 0 where proven optimal, None where unknown.
        solve_s: wall seconds it took.
        notes: sentences for whoever asks why.
        serving: on which of its nodes each trainer that uses servers has one.
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
    return {
        "format": RESULT_FORMAT,
        "status": str(decision.status),
        "objective": decision.objective,
        "gap": decision.gap,
        "solve_s": decision.solve_s,
        "solver": decision.solver,
        "allocation": {trainer: list(nodes) for trainer, nodes in decision.placement.items()},
        "notes": list(decision.notes),
        **(
            {"serving": {trainer: list(nodes) for trainer, nodes in decision.serving.items()}}
            if decision.serving
            else {}
        ),
    }
