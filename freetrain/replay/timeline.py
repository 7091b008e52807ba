"""What a replay remembers of its course, for the outcome and the report."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Protocol

from freetrain.core.decision import Decision
from freetrain.core.holes import Holes
from freetrain.replay.logs.nodelists import natural_order
from freetrain.replay.trainer_run import TrainerRun

PICTURED_NODES = 64


@dataclass(frozen=True, slots=True)
class Stay:
    """A pictured node in one state: idle (holder "") or with a trainer."""

    node: str
    from_s: float
    until_s: float
    holder: str


class Pictured(Protocol):
    """A cluster of which a timeline is kept."""

    now_s: float
    running: dict[str, TrainerRun]
    retired_samples: float

    @property
    def lent_nodes(self) -> int:
        """How many idle nodes a trainer has."""

    def holder_of(self, node: str) -> str | None:
        """Who has this node: a trainer's id, "" where it is idle, None where it is busy."""


class Timeline:
    """Lent nodes and training rate after every event, the stays of some nodes, and how decisions were found.

    Attributes:
        at_s: instants of the events.
        lent_nodes: nodes lent from then on.
        samples_per_s: rate of all trainers from then on.
        samples: samples of all trainers until then.
        pictured: the nodes whose stays are kept, spread evenly over those that are ever idle, numbers in their
            names in order.
        ever_idle_nodes: how many are.
        solve_s: how long each decision took.
        statuses: decisions by status and solver.
    """

    def __init__(self, holes: Holes) -> None:
        self.at_s: list[float] = []
        self.lent_nodes: list[int] = []
        self.samples_per_s: list[float] = []
        self.samples: list[float] = []
        self.solve_s: list[float] = []
        self.statuses: Counter[str] = Counter()
        self.pictured, self.ever_idle_nodes = _spread_evenly(holes)
        self._until_s = holes.until_s
        self._stays: list[Stay] = []
        self._open: dict[str, Stay] = {}
        self._holder: dict[str, str | None] = dict.fromkeys(self.pictured)

    def decided(self, decision: Decision) -> None:
        """Note how a decision was found."""
        self.solve_s.append(decision.solve_s)
        self.statuses[f"{decision.status} ({decision.solver})"] += 1

    def note(self, cluster: Pictured) -> None:
        """Note the state after an event."""
        now_s, samples, samples_per_s = cluster.now_s, cluster.retired_samples, 0.0
        for run in cluster.running.values():
            samples += run.samples + run.rate * (now_s - run.as_of_s)
            samples_per_s += run.rate
        self.at_s.append(now_s)
        self.lent_nodes.append(cluster.lent_nodes)
        self.samples_per_s.append(samples_per_s)
        self.samples.append(samples)
        for name in self.pictured:
            holder = cluster.holder_of(name)
            if holder != self._holder[name]:
                self._holder[name] = holder
                self._note_node(name, holder, cluster.now_s)

    def stays(self) -> list[Stay]:
        """All stays of the pictured nodes; those still open end with the window."""
        still_open = [Stay(stay.node, stay.from_s, self._until_s, stay.holder) for stay in self._open.values()]
        return self._stays + still_open

    def _note_node(self, name: str, holder: str | None, now_s: float) -> None:
        if before := self._open.pop(name, None):
            self._stays.append(Stay(name, before.from_s, now_s, before.holder))
        if holder is not None:
            self._open[name] = Stay(name, now_s, self._until_s, holder)


def _spread_evenly(holes: Holes) -> tuple[tuple[str, ...], int]:
    ever_idle = natural_order(holes.node_names[node] for node in set(holes.node.tolist()))
    step = max(1, -(-len(ever_idle) // PICTURED_NODES))
    return tuple(ever_idle[::step]), len(ever_idle)
