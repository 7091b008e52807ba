"""The clock of a replay as the daemon would have gone: events at their exact times, looks at the daemon's."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from math import inf

from freetrain.core.holes import Holes
from freetrain.core.topology import FLAT, Topology
from freetrain.core.trainer import Trainer
from freetrain.lending.judge import Judgement
from freetrain.lending.pace import next_look_s
from freetrain.lending.rules import Rules
from freetrain.loop.cycle import Goal, Journal
from freetrain.loop.lending_loop import LendingLoop
from freetrain.replay.as_daemon.cluster import SimulatedCluster
from freetrain.replay.as_daemon.site import LoggedSite, SharedNodes
from freetrain.replay.as_daemon.timing import Timing, Wakes
from freetrain.replay.course import Course, ReplayRecord
from freetrain.replay.logs import LoggedJobs
from freetrain.replay.logs.model import TaskPlaces
from freetrain.replay.nodes import watts_of

_BETWEEN_LOOKS_S = 0.5
_MAX_AT_ONCE = 10
_AT_LATEST_S, _KNOWING_NO_JOBS_S = 60.0, 600.0
"""While nothing happens a look finds what the last one found, but for what time alone changes, and for holes that
near their ends; of these nothing is known where the log tells of nodes only."""


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
        topology: the switches.
        places: room for tasks, on nodes with jobs and without, where nodes are lent in parts.
        as_ideal: look whenever something has happened, and see no job before it starts: what the holes allow.
        as_published: charge evictions as the published method does.
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
        topology: Topology = FLAT,
        places: TaskPlaces | None = None,
        as_ideal: bool = False,
        as_published: bool = False,
    ) -> None:
        self._as_ideal = as_ideal
        # Why a job waited although nodes were free the log does not say: that is no harm of freetrain's.
        rules = replace(rules, harm=replace(rules.harm, pause_s=0.0))
        self._until_s = holes.until_s
        self._rules = rules
        self._timing = timing
        self._goal = goal
        shared = (
            SharedNodes(holes.node_names, logged, places) if places is not None and logged is not None else None
        )
        self._site = LoggedSite(holes, logged, rules.nodes.partition, shared, shows_waiting=not as_ideal)
        watts = {} if shared is not None else watts_of(holes, rules.draw)
        self._cluster = SimulatedCluster(
            self._site, rules, timing, goal.objective, holes.from_s, watts, shared, as_published
        )
        self._course = Course(
            self._cluster,
            places.holes if places is not None else holes,
            trainers,
            goal.objective,
            rules.sharing.max_running,
            journal,
            topology,
        )
        self._loop = LendingLoop(self._cluster, rules, self._course, stopwatch_s, self._cluster.on_judgement)
        self._at_latest_s = _KNOWING_NO_JOBS_S if logged is None else _AT_LATEST_S
        self._looks_now = 0
        self._looked_s, self._look_s = -inf, holes.from_s
        self._stale_s = self._event_s = holes.from_s
        self._has_news = True

    def run(self, progress: Callable[[float], None] = lambda at_s: None) -> ReplayRecord:
        """Replay the whole window; ``progress`` is called with the log's time as it goes."""
        course = self._course
        while not course.is_over and (at_s := min(self._event_s, self._look_s)) < self._until_s:
            course.advance(at_s)
            is_event = at_s >= self._event_s
            if happened := is_event and self._take_in_events():
                course.events += 1
                progress(at_s)
            looked = at_s >= self._look_s and not self._goes_on_now() and self._look()
            if looked or happened:
                course.note()
            if looked or is_event:
                self._event_s = self._next_event_s()
        course.finish()
        # Fragments that run when the window ends count as lent until then.
        for trainer in self._cluster.running:
            self._cluster.lent.complete(trainer, self._until_s)
        return replace(course.outcome(self._cluster.site_impact), leases=tuple(self._cluster.lent.times))

    def _goes_on_now(self) -> bool:
        """Whether more happens at this instant before what the holes allow is looked at: one look answers all."""
        return self._as_ideal and self._next_event_s() <= self._cluster.now_s

    def _next_event_s(self) -> float:
        return min(self._site.next_s, self._cluster.next_s, self._course.next_s())

    def _take_in_events(self) -> bool:
        """Bring the cluster up to date with all that happens now; whether anything did."""
        cluster = self._cluster
        # What ends now leaves room for what starts now, and jobs of the site start before fragments.
        completed = cluster.complete()
        moved = cluster.advance_fragments()
        site = cluster.advance_site()
        cluster.start_fragments()
        admitted = self._course.admit()
        freed = bool(cluster.lent.ended) if self._as_ideal else cluster.has_freed_nodes
        if self._timing.wakes is not None:
            self._wake(self._timing.wakes, site.submitted, site.ended or freed)
        # That a fragment runs or trains by now, or has made room for the next, changes nothing for the judge.
        # What the holes allow changes only with the nodes that are idle, not with jobs that nobody sees waiting.
        changed = site.changes_idle if self._as_ideal else bool(site)
        has_news = completed or changed or admitted or freed
        self._has_news = self._has_news or has_news
        if self._as_ideal and has_news:
            self._look_at_once()
        return has_news or moved

    def _wake(self, wakes: Wakes, submitted: bool, ended: bool) -> None:
        """Look soon after what has happened."""
        now_s, soonest_s = self._cluster.now_s, self._looked_s + _BETWEEN_LOOKS_S
        if submitted:
            self._look_s = min(self._look_s, max(now_s + wakes.submission_s, soonest_s))
        if ended:
            self._look_s = min(self._look_s, max(now_s + wakes.end_s, soonest_s))

    def _look_at_once(self) -> None:
        """Look now; not without end where each look makes something happen at once."""
        now_s = self._cluster.now_s
        self._looks_now = self._looks_now + 1 if now_s == self._looked_s else 0
        if self._looks_now < _MAX_AT_ONCE:
            self._look_s = now_s

    def _look(self) -> bool:
        """Look, unless it would find what the last look found; whether it did."""
        now_s = self._cluster.now_s
        interval_s = self._rules.nodes.backfill.interval_s
        self._look_s = next_look_s(now_s, self._timing.poll_s, self._cluster.last_plan_s, interval_s, 0.0)
        if not self._has_news and now_s < self._stale_s:
            return False
        self._looked_s, self._has_news = now_s, False
        judgement = self._loop.look(self._goal).judgement
        changes_s = judgement.memory.sightings.next_change_s(now_s, self._rules.nodes)
        self._stale_s = min(now_s + self._at_latest_s, changes_s)
        self._note_forecasts(judgement)
        return True

    def _note_forecasts(self, judgement: Judgement) -> None:
        """Plans are compared without the margin by which nodes are given back before them."""
        margin_s = self._rules.nodes.margin_s
        ends_s = judgement.hole_ends_s.items()
        planned_s = ((name, end_s + margin_s) for name, end_s in ends_s if end_s < inf)
        memory = judgement.memory
        self._course.forecasts.note(judgement.now_s, memory.stays, planned_s, memory.planned_stays)
