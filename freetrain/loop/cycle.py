"""One cycle of the loop. Live and replay differ only in the cluster they hand in and in who calls."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

from freetrain.core.decision import Decision
from freetrain.core.plan import Action, plan_moves
from freetrain.core.problem import Offer, Problem
from freetrain.core.trainer import Trainer
from freetrain.loop.deciding import decide
from freetrain.policies import Policy


@dataclass(frozen=True, slots=True)
class Observation:
    """What there is at one instant: idle nodes, lent ones included, and the trainers that may have them."""

    now_s: float
    nodes: tuple[Offer, ...]
    trainers: tuple[Trainer, ...]


class Cluster(Protocol):
    """Where nodes and trainers are: Slurm, or a log being replayed."""

    def observations(self) -> Iterable[Observation]:
        """What there is now: once for all trainers, or for each group of trainers with nodes of its own.

        The next group is observed after what was decided for the one before it has been carried out.
        """

    def act(self, action: Action) -> None:
        """Carry out one action of a plan."""


class Journal(Protocol):
    """Keeps every decision, so that it can be asked about and solved again."""

    def record(self, problem: Problem, decision: Decision) -> None:
        """Keep one decision with its problem."""


class NullJournal:
    """Keeps nothing."""

    def record(self, problem: Problem, decision: Decision) -> None:
        """Forget the decision."""


@dataclass(frozen=True, slots=True)
class Aims:
    """What a site wants decided, and how far ahead.

    Attributes:
        policy: who decides.
        objective: name of what is maximised.
        horizon_s: how far ahead value is counted.
    """

    policy: Policy
    objective: str
    horizon_s: float


def run_cycle(cluster: Cluster, aims: Aims, journal: Journal, stopwatch_s: Callable[[], float]) -> list[Decision]:
    """Look at the cluster, decide, and bring it to what was decided; once for each of its observations.

    Args:
        cluster: what is looked at and acted on.
        aims: what is wanted.
        journal: where each decision is kept, after it has been carried out.
        stopwatch_s: running seconds, to measure how long deciding takes.
    """
    decisions = []
    for seen in cluster.observations():
        problem = Problem(seen.now_s, seen.nodes, seen.trainers, aims.horizon_s, aims.objective)
        decision = decide(aims.policy, problem, stopwatch_s)
        for action in plan_moves(problem.held_names, decision.placement):
            cluster.act(action)
        journal.record(problem, decision)
        decisions.append(decision)
    return decisions
