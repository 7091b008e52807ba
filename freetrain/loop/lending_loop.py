"""The lending loop: cycles that remember what those before them saw."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from freetrain.core.decision import Decision
from freetrain.lending.facts import Facts
from freetrain.lending.judge import Judgement, judge
from freetrain.lending.memory import Memory
from freetrain.lending.rules import Rules
from freetrain.loop.cycle import Cluster, Goal, Journal, run_cycle


@dataclass(frozen=True)
class Look:
    """What one cycle came to.

    Attributes:
        judgement: on what it saw.
        decisions: in order.
        waits_for: trainer that could run → why it has no node.
    """

    judgement: Judgement
    decisions: tuple[Decision, ...] = ()
    waits_for: Mapping[str, str] = field(default_factory=dict)
    no_more: Mapping[str, str] = field(default_factory=dict)


class LendingLoop:
    """Lends by rules, on Slurm or in a replay.

    Args:
        cluster: what is looked at and acted on.
        rules: how the site wants it done.
        journal: keeps the decisions.
        stopwatch_s: running seconds, to measure how long deciding takes.
        tell: gets each judgement before anything is done about it.
        memory: what is known from before, as a restarted daemon knows it from its database.

    Attributes:
        rules: they may be changed between two looks.
        memory: what is kept from one look to the next.
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
        self.memory, waits_for = judgement.conclude(decisions)
        self.last = Look(judgement, tuple(decisions), waits_for, judgement.why_no_more(decisions))
        return self.last

    def forget_blocked(self) -> None:
        """Hold against no partition any more that its jobs had to wait: Slurm's layout, or a rule, is another."""
        self.memory = replace(self.memory, blocked=self.memory.blocked.forgetting())

    def _judge(self, facts: Facts) -> Judgement:
        judgement = judge(facts, self.memory, self.rules)
        # Kept at once: what was seen stays seen where Slurm falls silent before all is done.
        self.memory, self.last = judgement.memory, Look(judgement)
        self._tell(judgement)
        return judgement
