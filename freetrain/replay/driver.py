"""The replay: the loop driven by a log's clock instead of the wall's."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import inf

from freetrain.core.decision import Decision
from freetrain.core.holes import Holes
from freetrain.core.problem import Problem
from freetrain.core.trainer import Trainer
from freetrain.loop.cycle import Goal, Journal, run_cycle
from freetrain.replay.admission import AdmissionQueue
from freetrain.replay.cluster import Idle, ReplayedCluster
from freetrain.replay.division import Divider
from freetrain.replay.node_changes import NodeChange, node_changes
from freetrain.replay.timeline import Timeline
from freetrain.replay.trainer_run import TrainerRun


@dataclass(frozen=True, slots=True)
class Felt:
    """What the site feels of a replay as the daemon would have gone.

    Attributes:
        starts: jobs of the site's that started on idle nodes.
        delays_s: of those that had to wait for fragments, how long.
        lent_node_s: seconds of idle nodes on which fragments ran, whether a training was on them or not yet.
    """

    starts: int
    delays_s: tuple[float, ...]
    lent_node_s: float


@dataclass(frozen=True, slots=True)
class ReplayRecord:
    """Everything that came of a replay.

    Attributes:
        holes: what there was to lend.
        runs: every trainer that was admitted, in order of admission.
        timeline: how it went.
        oracle_work: work of the best division at every instant, changes costing nothing.
        events: instants at which something happened.
        felt: what the site feels; None: it was not asked.
    """

    holes: Holes
    runs: tuple[TrainerRun, ...]
    timeline: Timeline
    oracle_work: float
    events: int
    felt: Felt | None = None


class Replay:
    """Replays a log once.

    Nodes that join or leave, trainers that arrive (where a place is free) or complete are events at their
    exact times; all that happen at one instant are answered by one decision.

    Args:
        holes: what the log left idle.
        trainers: who wants it, in order of submission.
        goal: what is wanted.
        max_running: most trainers that may compete at once; the others wait, first come, first served.
        journal: where decisions are kept.
        stopwatch_s: running seconds, to measure how long deciding takes.
    """

    def __init__(
        self,
        holes: Holes,
        trainers: Iterable[Trainer],
        goal: Goal,
        max_running: int,
        journal: Journal,
        stopwatch_s: Callable[[], float],
    ) -> None:
        self._holes = holes
        self._goal = goal
        self._journal = journal
        self._stopwatch_s = stopwatch_s
        self._cluster = ReplayedCluster(holes.from_s, goal.objective)
        self._changes = node_changes(holes)
        self._next_change = next(self._changes, None)
        self._queue = AdmissionQueue(trainers, max_running)
        self._runs: list[TrainerRun] = []
        self._timeline = Timeline(holes)
        self._divider = Divider(goal.objective)
        self._oracle_work = 0.0
        self._oracle_work_per_s = 0.0
        self._events = 0

    def run(self, progress: Callable[[float], None] = lambda at_s: None) -> ReplayRecord:
        """Replay the whole window; ``progress`` is told the log's time as it goes."""
        until_s = self._holes.until_s
        while (at_s := self._next_event_s()) < until_s:
            self._advance(at_s)
            if self._take_in_events():
                self._cycle()
                self._events += 1
                progress(at_s)
        self._advance(until_s)
        for run in self._cluster.running.values():
            run.settle(until_s)
        return ReplayRecord(self._holes, tuple(self._runs), self._timeline, self._oracle_work, self._events)

    def _next_event_s(self) -> float:
        running = self._cluster.running
        if not running and self._queue.is_empty:
            return inf  # nothing can happen any more
        node_s = self._next_change.at_s if self._next_change else inf
        arrival_s = self._queue.next_arrival_s(len(running), self._cluster.now_s)
        completion_s = min((run.completes_s for run in running.values()), default=inf)
        return min(node_s, arrival_s, completion_s)

    def _advance(self, at_s: float) -> None:
        self._oracle_work += self._oracle_work_per_s * (at_s - self._cluster.now_s)
        self._cluster.now_s = at_s

    def _take_in_events(self) -> bool:
        """Bring the cluster up to date with all that happens now; whether anything did."""
        return any([self._complete(), self._change_nodes(), self._admit()])

    def _complete(self) -> bool:
        now_s = self._cluster.now_s
        done = [run.trainer.id for run in self._cluster.running.values() if run.completes_s <= now_s]
        for trainer_id in done:
            self._cluster.retire(trainer_id)
        return bool(done)

    def _change_nodes(self) -> bool:
        change: NodeChange | None = self._next_change
        if change is None or change.at_s > self._cluster.now_s:
            return False
        self._cluster.leave(change.left)
        self._cluster.join(change.joined)
        self._next_change = next(self._changes, None)
        return True

    def _admit(self) -> bool:
        admitted = list(self._queue.admit(len(self._cluster.running), self._cluster.now_s))
        self._runs += [self._cluster.admit(trainer) for trainer in admitted]
        return bool(admitted)

    def _cycle(self) -> None:
        running = self._cluster.running
        if running and self._cluster.idle_nodes:
            run_cycle(self._cluster, _as_it_is, self._goal, self, self._stopwatch_s)
        self._timeline.note(self._cluster)
        trainers = [run.trainer for run in running.values()]
        self._oracle_work_per_s = self._divider.best_worth_per_s(trainers, self._cluster.idle_nodes)

    def next_decision(self) -> str:
        """How the journal will call the next one."""
        return self._journal.next_decision()

    def record(self, problem: Problem, decision: Decision) -> None:
        """Keep a decision in the timeline and in the journal."""
        self._timeline.decided(decision)
        self._journal.record(problem, decision)


def _as_it_is(idle: Idle) -> Idle:
    """What is idle may be lent."""
    return idle
