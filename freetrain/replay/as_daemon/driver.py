"""The clock of a replay as the daemon would have gone: events at their exact times, looks at the daemon's."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import inf

from freetrain.core.decision import Decision
from freetrain.core.holes import Holes
from freetrain.core.problem import Problem
from freetrain.core.trainer import Trainer
from freetrain.lending.rules import Rules
from freetrain.loop.cycle import Goal, Journal
from freetrain.loop.lending_loop import LendingLoop
from freetrain.replay.admission import AdmissionQueue
from freetrain.replay.as_daemon.cluster import SimulatedCluster
from freetrain.replay.as_daemon.site import LoggedSite
from freetrain.replay.as_daemon.timing import Timing
from freetrain.replay.division import Divider
from freetrain.replay.driver import Felt, ReplayRecord
from freetrain.replay.logs import LoggedJobs
from freetrain.replay.timeline import Timeline
from freetrain.replay.trainer_run import TrainerRun

_BETWEEN_LOOKS_S = 0.5
_AT_LATEST_S = 60.0
"""While nothing happens a look finds what the last one found, but for holes that near their ends."""


class DaemonReplay:
    """Replays a log once, with the daemon's judge and at the daemon's pace.

    Args:
        holes: what the log left idle.
        logged: its jobs; None: it tells of nodes only.
        trainers: who wants nodes, in order of submission.
        rules: how the site lends.
        goal: what is wanted.
        timing: how long things take.
        journal: where decisions are kept.
        stopwatch_s: running seconds, to measure how long deciding takes.
    """

    def __init__(
        self,
        holes: Holes,
        logged: LoggedJobs | None,
        trainers: Iterable[Trainer],
        rules: Rules,
        goal: Goal,
        timing: Timing,
        journal: Journal,
        stopwatch_s: Callable[[], float],
    ) -> None:
        self._holes = holes
        self._timing = timing
        self._goal = goal
        self._journal = journal
        self._site = LoggedSite(holes, logged, rules.nodes.partition)
        self._cluster = SimulatedCluster(self._site, timing, goal.objective, holes.from_s)
        self._loop = LendingLoop(self._cluster, rules, self, stopwatch_s)
        self._queue = AdmissionQueue(trainers, rules.sharing.max_running)
        self._runs: list[TrainerRun] = []
        self._timeline = Timeline(holes)
        self._divider = Divider(goal.objective)
        self._oracle_work = self._oracle_work_per_s = 0.0
        self._events = 0
        self._looked_s, self._look_s = -inf, holes.from_s
        self._has_news = True

    def run(self, progress: Callable[[float], None] = lambda at_s: None) -> ReplayRecord:
        """Replay the whole window; ``progress`` is told the log's time as it goes."""
        until_s = self._holes.until_s
        while (at_s := self._next_s()) < until_s:
            self._advance(at_s)
            if self._take_in_events():
                self._events += 1
                progress(at_s)
            if at_s >= self._look_s:
                self._look()
            self._note()
        self._advance(until_s)
        for run in self._cluster.running.values():
            run.settle(until_s)
            self._cluster.lent.complete(run.trainer.id, until_s)
        felt = Felt(self._cluster.started, tuple(self._cluster.delays_s), self._cluster.lent.node_s)
        return ReplayRecord(self._holes, tuple(self._runs), self._timeline, self._oracle_work, self._events, felt)

    def next_decision(self) -> str:
        """How the journal will call the next one."""
        return self._journal.next_decision()

    def record(self, problem: Problem, decision: Decision) -> None:
        """Keep a decision in the timeline and in the journal."""
        if problem.trainers:
            self._timeline.decided(decision)
            self._journal.record(problem, decision)

    def _next_s(self) -> float:
        running = self._cluster.running
        if not running and self._queue.is_empty:
            return inf  # nothing can happen any more
        arrival_s = self._queue.next_arrival_s(len(running), self._cluster.now_s)
        completion_s = min((run.completes_s for run in running.values()), default=inf)
        return min(self._site.next_s, self._cluster.lent.next_s, arrival_s, completion_s, self._look_s)

    def _advance(self, at_s: float) -> None:
        self._oracle_work += self._oracle_work_per_s * (at_s - self._cluster.now_s)
        self._cluster.now_s = at_s

    def _take_in_events(self) -> bool:
        """Bring the cluster up to date with all that happens now; whether anything did."""
        cluster = self._cluster
        completed, moved = cluster.complete(), cluster.lent.advance(cluster.now_s)
        site = cluster.advance_site()
        admitted = cluster.admit(self._queue.admit(len(cluster.running), cluster.now_s))
        self._runs += admitted
        if site and self._timing.wake_s is not None:
            soonest_s = max(cluster.now_s + self._timing.wake_s, self._looked_s + _BETWEEN_LOOKS_S)
            self._look_s = min(self._look_s, soonest_s)
        # That a fragment runs or trains by now changes nothing for the judge.
        has_news = completed or site or bool(admitted) or bool(cluster.lent.ended)
        self._has_news = self._has_news or has_news
        return has_news or moved

    def _look(self) -> None:
        now_s = self._cluster.now_s
        self._look_s = now_s + self._timing.poll_s
        if not self._has_news and now_s - self._looked_s < _AT_LATEST_S:
            return
        self._looked_s, self._has_news = now_s, False
        self._loop.look(self._goal)

    def _note(self) -> None:
        self._timeline.note(self._cluster)
        trainers = [run.trainer for run in self._cluster.running.values()]
        self._oracle_work_per_s = self._divider.best_worth_per_s(trainers, self._cluster.idle_nodes)
