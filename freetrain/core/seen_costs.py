"""Seen costs: what changes of a trainer's size were seen to cost it, and what is believed of that. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

_MOST_TIMES = 10
"""What was seen so many times ago hardly counts any more."""
_LONGEST_S = 86400.0
"""What takes longer is no change, or clocks differ."""


@dataclass(frozen=True, slots=True)
class Change:
    """A change of a trainer's size, as its progress tells it.

    Attributes:
        time_s: when it trained again, UTC epoch seconds.
        nodes: that it has since.
        cause: start, join, leave, loss or broken.
        pause_s: for how long it did not train.
        start_s: from the start of its programs to their first step; None: not known.
    """

    time_s: float
    nodes: int
    cause: str
    pause_s: float
    start_s: float | None = None


@dataclass(frozen=True, slots=True)
class Seen:
    """What one kind of change took, on average; the newest count most.

    Attributes:
        mean_s: the average.
        times: how often it was seen, as far as that still counts.
    """

    mean_s: float = 0.0
    times: int = 0

    def and_then(self, seconds: float) -> Seen:
        """With one more."""
        if not 0.0 <= seconds <= _LONGEST_S:
            return self
        times = min(self.times + 1, _MOST_TIMES)
        return Seen(self.mean_s + (seconds - self.mean_s) / times, times)

    def believed_s(self, said_s: float) -> float:
        """What is believed where its owner says something: as much as if it had been seen once."""
        return (said_s + self.times * self.mean_s) / (1 + self.times)


@dataclass(frozen=True, slots=True)
class SeenCosts:
    """What changes were seen to cost one trainer.

    Attributes:
        scale_up: pauses when nodes joined.
        scale_down: pauses when some left in good order.
        forced_loss: pauses when some were lost.
        start: from the start of its programs to their first step.
        boot: from the start of a new node's fragment until it joined.
        run: how long those tasks of a filler ran that completed.
        nodes: that it has had since its last change.
        since_s: when that was, UTC epoch seconds.
    """

    scale_up: Seen = Seen()
    scale_down: Seen = Seen()
    forced_loss: Seen = Seen()
    start: Seen = Seen()
    boot: Seen = Seen()
    run: Seen = Seen()
    nodes: int = 0
    since_s: float = 0.0

    def after(self, changes: Iterable[Change], started_s: Iterable[float]) -> SeenCosts:
        """After some changes, in order.

        Args:
            changes: which.
            started_s: when its fragments that run now were started, UTC epoch seconds.
        """
        began_s, costs = sorted(started_s), self
        for change in changes:
            costs = costs._after_change(change, began_s)
        return costs

    def after_runs(self, runs_s: Iterable[float]) -> SeenCosts:
        """After some tasks of a filler have completed that ran for so long."""
        run = self.run
        for each_s in runs_s:
            run = run.and_then(each_s)
        return replace(self, run=run)

    def _after_change(self, change: Change, started_s: list[float]) -> SeenCosts:
        costs = replace(self, nodes=change.nodes, since_s=change.time_s)
        match change.cause:
            case "join":
                return replace(
                    costs, scale_up=self.scale_up.and_then(change.pause_s), boot=self._boot(change, started_s)
                )
            case "leave":
                return replace(costs, scale_down=self.scale_down.and_then(change.pause_s))
            case "loss" | "broken":
                return replace(costs, forced_loss=self.forced_loss.and_then(change.pause_s))
            case "start" if change.start_s is not None:
                return replace(costs, start=self.start.and_then(change.start_s))
        return costs

    def _boot(self, change: Change, started_s: list[float]) -> Seen:
        """Only where it is clear who joined: as many as were started since the last change."""
        joined_s = change.time_s - change.pause_s
        new_s = [each for each in started_s if self.since_s < each <= joined_s]
        if len(new_s) != change.nodes - self.nodes or not new_s:
            return self.boot
        return self.boot.and_then(joined_s - new_s[-1])


NOTHING_SEEN = SeenCosts()
