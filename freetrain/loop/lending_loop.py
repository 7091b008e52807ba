"""The lending loop: cycles that remember what those before them saw."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from freetrain.core.decision import Decision
from freetrain.core.known_trainer import KnownTrainer
from freetrain.lending.facts import Facts, WhyNot
from freetrain.lending.judge import Judgement, judge
from freetrain.lending.memory import Memory
from freetrain.lending.rules import Rules
from freetrain.lending.training_verdicts import Reason, TrainingContext, judge_trainings
from freetrain.loop.cycle import Cluster, Goal, Journal, run_cycle


@dataclass(frozen=True)
class Look:
    """Result of one cycle: the judgement, and the decisions."""

    judgement: Judgement
    decisions: tuple[Decision, ...] = ()

    def verdicts(
        self, trainers: Mapping[str, KnownTrainer] = MappingProxyType({}), unready: WhyNot = MappingProxyType({})
    ) -> Mapping[str, Reason]:
        """Submission → reason why it has no nodes, or no more; for an unready one, what it waits for."""
        return judge_trainings(TrainingContext(self.judgement, self.decisions, trainers, unready))


class LendingLoop:
    """Loop that lends by rules, on Slurm or in a replay.

    Args:
        stopwatch_s: running seconds, to measure how long deciding takes.
        tell: gets each judgement before anything is done about it.
        memory: records of earlier looks, as a restarted daemon has them from its database.

    Attributes:
        rules: they may be changed between two looks.
        last: the last look; None: there was none. Where it was cut off it has no decisions.
    """

    def __init__(
        self,
        cluster: Cluster[Facts],
        rules: Rules,
        journal: Journal,
        stopwatch_s: Callable[[], float],
        tell: Callable[[Judgement], None] = lambda judgement: None,
        memory: Memory | None = None,
    ) -> None:
        self._cluster = cluster
        self._journal = journal
        self._stopwatch_s = stopwatch_s
        self._tell = tell
        self.rules = rules
        self.memory = memory or Memory()
        self.last: Look | None = None

    def look(self, goal: Goal) -> Look:
        """Observe, judge, decide and act, once."""
        judgement, decisions = run_cycle(self._cluster, self._judge, goal, self._journal, self._stopwatch_s)
        self.memory = judgement.remember(decisions)
        self.last = Look(judgement, tuple(decisions))
        return self.last

    def forget_blocked(self) -> None:
        """Forget which partitions' jobs had to wait: Slurm's layout, or a rule, has changed."""
        self.memory = replace(self.memory, blocked=self.memory.blocked.forgetting())

    def _judge(self, facts: Facts) -> Judgement:
        judgement = judge(facts, self.memory, self.rules)
        # Kept at once: what was seen stays seen where Slurm falls silent before all is done.
        self.memory, self.last = judgement.memory, Look(judgement)
        self._tell(judgement)
        return judgement
