"""A study: one log, one set of trainers, one way to decide, and what came of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from freetrain.core.holes import Holes
from freetrain.core.trainer import Trainer
from freetrain.loop.cycle import Goal, Journal
from freetrain.replay.dedicated import DedicatedRecord, train_dedicated
from freetrain.replay.driver import Replay, ReplayRecord
from freetrain.replay.outcome import Outcome, outcome_of


@dataclass(frozen=True, slots=True)
class Costs:
    """Costs in seconds that replace those of every trainer, where given."""

    scale_up_s: float | None = None
    scale_down_s: float | None = None
    forced_loss_s: float | None = None
    start_s: float | None = None

    def apply(self, trainers: Iterable[Trainer]) -> Iterator[Trainer]:
        """The trainers with these costs."""
        given = {
            name: seconds
            for name in ("scale_up_s", "scale_down_s", "forced_loss_s", "start_s")
            if (seconds := getattr(self, name)) is not None
        }
        for trainer in trainers:
            yield replace(trainer, **given)


@dataclass(frozen=True, slots=True)
class Study:
    """What came of a replay.

    Attributes:
        record: the replay.
        dedicated: the same trainers on a machine of their own.
        outcome: the figures.
        wall_s: seconds that the replay took.
    """

    record: ReplayRecord
    dedicated: DedicatedRecord
    outcome: Outcome
    wall_s: float

    @property
    def events_per_s(self) -> float:
        """Events replayed per second."""
        return self.record.events / self.wall_s if self.wall_s > 0 else 0.0


def study(
    holes: Holes,
    trainers: Iterable[Trainer],
    costs: Costs,
    goal: Goal,
    max_running: int,
    journal: Journal,
    stopwatch_s: Callable[[], float],
    progress: Callable[[float], None] = lambda at_s: None,
) -> Study:
    """Replay a log, and compare it with a dedicated machine of as many node-hours."""
    start_s = stopwatch_s()
    record = Replay(holes, costs.apply(trainers), goal, max_running, journal, stopwatch_s).run(progress)
    wall_s = stopwatch_s() - start_s
    dedicated = train_dedicated(trainers, holes.mean_idle_nodes, holes.from_s, holes.until_s, max_running)
    return Study(record, dedicated, outcome_of(record, dedicated), wall_s)
