"""The daemon's own loop on a simulated Slurm: polls, and looks a moment after each submission and end."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from math import inf

from benchmarks.queue.slurm import SimulatedSlurm
from freetrain.core.harm import Harm
from freetrain.core.plan import Action, Lend, Release
from freetrain.core.trainer import Trainer, TrainerPast
from freetrain.lending.facts import Facts, Request
from freetrain.lending.rules import Rules
from freetrain.loop.cycle import Goal, NullJournal
from freetrain.loop.lending_loop import LendingLoop
from freetrain.policies import find_policy

_BETWEEN_LOOKS_S, _ACTS_AFTER_S = 0.5, 0.1


@dataclass(frozen=True, slots=True)
class Habits:
    """How the daemon looks.

    Attributes:
        poll_s: from one poll to the next.
        wake_s: from a submission or an end to the look that it causes; inf: only polls look.
    """

    poll_s: float = 5.0
    wake_s: float = 0.15


class SimulatedDaemon:
    """Lends, as long as the simulated Slurm runs.

    Args:
        slurm: where.
        rules: how.
        habits: when it looks.
        trainers: who wants nodes.

    Attributes:
        harms: delays that it has measured.
    """

    def __init__(self, slurm: SimulatedSlurm, rules: Rules, habits: Habits, trainers: list[Trainer]) -> None:
        self._slurm = slurm
        self._habits = habits
        self._requests = tuple(Request(one, "somebody") for one in trainers)
        self._goal = Goal.of(find_policy("greedy"), "speedup")
        self._loop = LendingLoop(self, rules, NullJournal(), time.perf_counter)
        self._looked_s = -inf
        self.harms: list[Harm] = []
        slurm.tell = self._wake
        slurm.at(0.1, self._poll)

    def _wake(self) -> None:
        """Something has happened."""
        at_s = max(self._slurm.now_s + self._habits.wake_s, self._looked_s + _BETWEEN_LOOKS_S)
        if at_s < inf:
            self._slurm.at(at_s, self._look)

    def observe(self) -> Facts:
        """See :class:`freetrain.loop.cycle.Cluster`."""
        ended, self._slurm.ended = tuple(self._slurm.ended), []
        return Facts(
            self._slurm.snapshot(),
            self._slurm.fragments,
            ended,
            self._requests,
            last_plan_s=self._slurm.last_plan_s,
        )

    def past_of(self, trainers: Collection[str]) -> Mapping[str, TrainerPast]:
        """Nothing: no policy is tried here that decides by it."""
        return {}

    def act(self, action: Action, decision: str | None) -> None:
        """See :class:`freetrain.loop.cycle.Cluster`; an order takes a moment to reach Slurm."""
        at_s = self._slurm.now_s + _ACTS_AFTER_S
        if isinstance(action, Lend):
            self._slurm.at(at_s, lambda: self._slurm.lend(action.trainer, action.nodes, action.limits_s))
        elif isinstance(action, Release):
            self._slurm.at(at_s, lambda: self._slurm.release(action.nodes))

    def _poll(self) -> None:
        self._look()
        self._slurm.at(self._slurm.now_s + self._habits.poll_s, self._poll)

    def _look(self) -> None:
        if self._slurm.now_s - self._looked_s >= _BETWEEN_LOOKS_S:
            self._looked_s = self._slurm.now_s
            look = self._loop.look(self._goal)
            self.harms += look.judgement.memory.meter.new
