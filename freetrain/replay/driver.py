"""The replay: the loop driven by a log's clock instead of the wall's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import inf

from freetrain.core.holes import Holes
from freetrain.core.power import NO_DRAW, PowerDraw
from freetrain.loop.cycle import run_cycle
from freetrain.replay.cluster import ReplayedCluster
from freetrain.replay.course import Course, ReplayRecord, ReplaySetup
from freetrain.replay.foresight import Foresight, Knowledge, SitePlans
from freetrain.replay.logs import LoggedJobs
from freetrain.replay.nodes import node_changes, watts_of


class Replay:
    """Replays a log once.

    Nodes that join or leave, trainers that arrive (where a place is free) or complete are events at their
    exact times; all that happen at one instant are answered by one decision.

    Args:
        max_running: most trainers that may compete at once, of those that could run.
        logged: the log's jobs; None: nothing is known of plans, as where it tells of nodes only.
    """

    def __init__(
        self,
        holes: Holes,
        setup: ReplaySetup,
        foresight: Foresight,
        max_running: int,
        logged: LoggedJobs | None = None,
        draw: PowerDraw = NO_DRAW,
    ) -> None:
        self._until_s = holes.until_s
        has_plans = logged is not None and foresight.knows is Knowledge.PLAN
        self._plans = SitePlans(holes, logged) if logged is not None and has_plans else None
        self._setup = setup
        self._cluster = ReplayedCluster(holes, setup, foresight, self._plans, watts_of(holes, draw))
        self._course = Course(self._cluster, holes, setup, max_running)
        self._changes = node_changes(holes)
        self._next_change = next(self._changes, None)

    def run(self, progress: Callable[[float], None] = lambda at_s: None) -> ReplayRecord:
        """Replay the whole window; ``progress`` is called with the log's time as it goes."""
        course = self._course
        while not course.is_over and (at_s := self._next_event_s()) < self._until_s:
            course.advance(at_s)
            if self._take_in_events():
                self._cycle()
                course.events += 1
                progress(at_s)
            if self._cluster.finish_boots():
                course.note()
        course.finish()
        if (lent := self._cluster.leases) is not None:
            lent.finish(self._until_s)
            return replace(course.outcome(), leases=tuple(lent.all))
        return course.outcome()

    def _next_event_s(self) -> float:
        change_s = self._next_change.at_s if self._next_change else inf
        planned_s = self._plans.site.next_s if self._plans else inf
        return min(change_s, self._course.next_s(), planned_s, self._cluster.next_booted_s)

    def _take_in_events(self) -> bool:
        # Completions come first: what these trainers had is free for those that arrive at the same instant.
        completed = self._complete()
        changed = self._change_nodes()
        planned_anew = self._plans is not None and bool(self._plans.site.advance(self._cluster.now_s))
        # Admitting comes first in the expression: behind `or` it might not be done.
        return self._course.admit() or completed or changed or planned_anew

    def _complete(self) -> bool:
        now_s = self._cluster.now_s
        done = [run.trainer.id for run in self._cluster.running.values() if run.completes_s <= now_s]
        for trainer_id in done:
            self._cluster.retire(trainer_id)
        return bool(done)

    def _change_nodes(self) -> bool:
        change = self._next_change
        if change is None or change.at_s > self._cluster.now_s:
            return False
        self._cluster.leave(change.left)
        self._cluster.join(change.joined)
        self._next_change = next(self._changes, None)
        return True

    def _cycle(self) -> None:
        # Where there is nothing to decide no decision is recorded, but ages of idle nodes are learned from all.
        if self._cluster.running and self._cluster.idle_nodes:
            # Nothing is judged here: all idle nodes may be lent, to the trainers that compete.
            cluster, course, setup = self._cluster, self._course, self._setup
            run_cycle(cluster, lambda idle: idle.among(course.competing()), setup.goal, course, setup.stopwatch_s)
            # Sizes are noted again after the decision: none that lasts until the next event must be missed.
            cluster.note_sizes()
            self._course.forecasts.note(
                cluster.now_s, cluster.stays, cluster.planned_s.items(), cluster.planned_stays
            )
        else:
            self._cluster.note_idle()
        self._course.note()
