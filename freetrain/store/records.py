"""What goes into the store and what comes out of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from freetrain.core.decision import Status


class RunStatus(StrEnum):
    """How far a run got."""

    RUNNING = "running"
    """Begun and not ended; also what is left of a run whose process was killed outright."""
    COMPLETE = "complete"
    INTERRUPTED = "interrupted"
    """Ended by an error or Ctrl-C; what it had decided until then is kept."""


@dataclass(frozen=True, slots=True)
class NewRun:
    """A run that is about to begin.

    Attributes:
        command: the command line, as the user would repeat it.
        version: freetrain's version.
        settings: whatever the run depends on; anything JSON can hold.
        started_s: wall time at which it begins, UTC epoch seconds.
        from_s: begin of the time that is replayed.
        until_s: end of it.
        node_names: all nodes that may occur in a decision, in the machine's order.
        node_count: how many nodes there are, where none is named since no decision is kept.
    """

    command: str
    version: str
    settings: dict[str, Any]
    started_s: float
    from_s: float
    until_s: float
    node_names: tuple[str, ...]
    node_count: int | None = None


@dataclass(frozen=True, slots=True)
class TrainerRecord:
    """What became of one trainer in a run.

    Attributes:
        id: the trainer's.
        started_s: when it first had nodes; None: never.
        completed_s: when it reached its target; None: it did not.
        samples: samples it was trained on.
        node_hours: node-hours it was lent.
        evictions: times that nodes were taken from it.
        rescales: times that it changed its size.
    """

    id: str
    started_s: float | None
    completed_s: float | None
    samples: float
    node_hours: float
    evictions: int
    rescales: int


@dataclass(frozen=True, slots=True)
class RunSummary:
    """A run, as a list of runs shows it; ``outcome`` is empty unless the run is complete."""

    id: int
    command: str
    version: str
    status: RunStatus
    started_s: float
    ended_s: float | None
    from_s: float
    until_s: float
    node_count: int
    decision_count: int
    settings: Mapping[str, Any]
    outcome: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class RunDetails:
    """A run with all but its decisions.

    Attributes:
        summary: what the list of runs shows, and what the run depended on.
        statuses: decisions by status.
        solvers: decisions by solver.
        trainer_count: trainers that were seen in a problem.
        trainers: their results, most samples first; empty unless the run is complete.
    """

    summary: RunSummary
    statuses: Mapping[str, int]
    solvers: Mapping[str, int]
    trainer_count: int
    trainers: tuple[TrainerRecord, ...]


@dataclass(frozen=True, slots=True)
class DecisionSummary:
    """A decision without its problem and placement."""

    number: int
    now_s: float
    status: Status
    solver: str
    objective: float
    gap: float | None
    solve_s: float
    idle_nodes: int
    lent_nodes: int
    notes: tuple[str, ...]
