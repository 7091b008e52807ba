"""A site as its log tells it, with fragments on its nodes; events at their exact times, looks at the daemon's."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence, Set
from dataclasses import replace
from math import inf
from types import MappingProxyType

from freetrain.core.amounts import Amount
from freetrain.core.fragment import End, Fragment, FragmentState
from freetrain.core.holes import Holes
from freetrain.core.objectives import worth_per_s
from freetrain.core.place import is_new, node_of
from freetrain.core.plan import Action, Lend, Limit, PlaceServers, Release
from freetrain.core.trainer import Trainer, TrainerPast
from freetrain.lending.facts import Facts
from freetrain.lending.judge import Judgement, whole_minutes_s
from freetrain.lending.pace import next_look_s
from freetrain.lending.rules import Rules
from freetrain.lending.sharing.claimants import PastUse
from freetrain.loop.lending_loop import LendingLoop
from freetrain.replay.as_daemon.lent import BackfillCycles, LentNodes, Timing, Wakes
from freetrain.replay.as_daemon.site import JobStart, LoggedSite, SharedNodes, SiteEvents
from freetrain.replay.course import Course, ReplayRecord, ReplaySetup, SiteImpact
from freetrain.replay.logs import LoggedJobs
from freetrain.replay.logs.model import TaskPlaces
from freetrain.replay.nodes import watts_of
from freetrain.replay.trainer_run import TrainerRun


class SimulatedCluster:
    """Observed and acted on by the same loop as Slurm: see :class:`freetrain.loop.cycle.Cluster`.

    Args:
        rules: the site's rules of lending, and how its Slurm plans.
        watts_of: node → what it takes while it is lent; empty: nobody says.
        shared: nodes that are lent in parts, with what jobs have of them; None: nodes are lent whole.
        as_published: charge evictions as the published method does.

    Attributes:
        running: admitted trainings by id, in order of admission.
    """

    def __init__(
        self,
        site: LoggedSite,
        rules: Rules,
        timing: Timing,
        objective: str,
        now_s: float,
        watts_of: Mapping[str, float] = MappingProxyType({}),
        shared: SharedNodes | None = None,
        as_published: bool = False,
    ) -> None:
        self._watts_of = watts_of
        self._as_published = as_published
        self._shared = shared
        self._past_use = PastUse(rules.sharing.half_life_s, now_s)
        self._site = site
        self._rules = rules
        self._cycles = BackfillCycles(rules.nodes.backfill.interval_s, now_s)
        self._objective = objective
        self.now_s = now_s
        self.running: dict[str, TrainerRun] = {}
        self._each: dict[str, Amount] = {}
        self.lent = LentNodes(self.running, timing, None if shared is None else self._each)
        self._hole_ends_s: Mapping[str, float] = {}
        self._delays_s: list[float] = []
        self._serving: dict[str, tuple[str, ...]] = {}
        self._started = 0
        self.retired_samples = 0.0

    def observe(self) -> Facts:
        """Facts of a look, as Slurm would have shown them."""
        # Each end is handed to the judge once, as to the daemon.
        ended, self.lent.ended = tuple(self.lent.ended), []
        requests = tuple(run.request for run in self.running.values())
        snapshot = self._site.snapshot(self.now_s, self._parts_lent() if self._shared else {})
        done = {run.trainer.id: run.samples_at(self.now_s) for run in self.running.values()}
        used_hours = self._past_use.after(self.now_s, self._nodes_of_users())
        known = Facts(snapshot, self.lent.open, ended, requests, used_hours, last_plan_s=self.last_plan_s)
        return replace(known, done_samples=done, serving=dict(self._serving))

    def past_of(self, trainers: Collection[str]) -> Mapping[str, TrainerPast]:
        """Trainer → what it has done and had by now; only of those that run."""
        return {id_: self.running[id_].past_at(self.now_s) for id_ in trainers if id_ in self.running}

    def act(self, action: Action, decision: str | None) -> None:
        """Lend, give back, change a limit; there are no submissions to be put right."""
        if isinstance(action, Lend):
            self.lent.lend(action.trainer, action.nodes, map(whole_minutes_s, action.limits_s), self.now_s)
        elif isinstance(action, Release):
            self.lent.release(action.nodes, action.trainer, self.now_s)
        elif isinstance(action, Limit):
            self.lent.limit(action.nodes, action.limit_s)
        elif isinstance(action, PlaceServers):
            self._serving[action.trainer] = action.nodes

    def on_judgement(self, judgement: Judgement) -> None:
        """Take it that Slurm plans the site's jobs as a look expects."""
        self._hole_ends_s = judgement.hole_ends_s

    @property
    def last_plan_s(self) -> float | None:
        """Time at which Slurm last planned; None: unknown, since the log tells of no jobs."""
        return self._cycles.last_s(self.now_s) if self._site.tells_of_jobs else None

    @property
    def next_s(self) -> float:
        """Time of a fragment's next step, or of the backfill cycle that a queued one waits for; inf: neither."""
        is_awaited = self.lent.queued and self._cycles.next_s > self.now_s
        return min(self.lent.next_s, self._cycles.next_s) if is_awaited else self.lent.next_s

    @property
    def site_impact(self) -> SiteImpact:
        """Impact on the site so far."""
        return SiteImpact(self._started, tuple(self._delays_s), self.lent.node_s)

    @property
    def idle_nodes(self) -> int:
        """Number of nodes, or places, that the site's jobs leave idle, lent ones included."""
        return len(self._idle)

    @property
    def lent_nodes(self) -> int:
        """Number of nodes on which trainings are."""
        return sum(len(run.nodes) for run in self.running.values())

    @property
    def has_freed_nodes(self) -> bool:
        """Whether fragments that ended since the last look left idle nodes that nobody has, or parts of nodes."""
        if self._shared is not None:
            return any(fragment.end is not End.PREEMPTED for fragment in self.lent.ended)
        return any(self.holder_of(fragment.node) == "" for fragment in self.lent.ended)

    def holder_of(self, node: str) -> str | None:
        """Holder of this node: a trainer's id, "" where it is idle, None where it is busy."""
        return (self.lent.holder_of(node) or "") if node in self._idle else None

    def advance_fragments(self) -> bool:
        """Take the fragments' steps that are due; whether a training or a node is concerned."""
        queued = len(self.lent.queued)
        moved = self.lent.advance(self.now_s)
        if moved or len(self.lent.queued) > queued:
            self._cycles.note_change(self.now_s)
        return moved

    def start_fragments(self) -> None:
        """Let Slurm start the fragments that it can: at once while no job waits, else by backfill."""
        somebody_waits = bool(self.lent.queued) and self._site.somebody_waits
        if self.lent.queued and (not somebody_waits or self._cycles.last_s(self.now_s) == self.now_s):
            wanted_s = self._wanted_s() if somebody_waits else {}
            self.lent.start(self._has_room, wanted_s, self.now_s, by_backfill=somebody_waits)
            self._cycles.note_change(self.now_s)

    def advance_site(self) -> SiteEvents:
        """Take in the site's events of this instant."""
        happened = self._site.advance(self.now_s)
        if happened:
            self._cycles.note_change(self.now_s)
        self.lent.lose(happened.failed, self.now_s)
        self._started += len(happened.starts)
        for start, delay_s in zip(happened.starts, self._take(happened.starts), strict=True):
            if delay_s > 0:
                self._site.delay(start.job, delay_s)
                self._delays_s.append(delay_s)
        return happened

    def admit(self, trainer: Trainer) -> TrainerRun:
        """Let a trainer compete for nodes from now on."""
        worth = worth_per_s(trainer, self._objective)
        run = TrainerRun(trainer, worth, self.now_s, self._as_published, self._site.kind_of, self._watts_of)
        if self._shared is not None:
            run.request = replace(run.request, needs=self._shared.needs_of_task(run.request.needs, trainer))
            run.counts_as = self._shared.shapes.counts_as(trainer)
            self._each[trainer.id] = self._shared.shapes.of(trainer)
        self.running[trainer.id] = run
        return run

    def complete(self) -> bool:
        """Retire the trainings that have reached their targets; whether any had."""
        done = [run for run in self.running.values() if run.completes_s <= self.now_s]
        for run in done:
            self.lent.complete(run.trainer.id, self.now_s)
            run.complete(self.now_s)
            del self.running[run.trainer.id]
            self._serving.pop(run.trainer.id, None)
            self.retired_samples += run.samples
        return bool(done)

    @property
    def _idle(self) -> Set[str]:
        return self._shared.idle if self._shared is not None else self._site.idle

    def _take(self, starts: Sequence[JobStart]) -> list[float]:
        """Let jobs of the site start; seconds that each waits for fragments."""
        if self._shared is None:
            if not self._site.tells_of_jobs:  # else the judge sees the job and does so
                self.lent.call_off([name for start in starts for name in start.nodes], self.now_s)
            return self.lent.take([start.nodes for start in starts], self.now_s)
        left_of = self._shared.left_of
        return self.lent.make_room([{name: left_of(name) for name in start.nodes} for start in starts], self.now_s)

    def _has_room(self, fragment: Fragment) -> bool:
        if self._shared is None:
            return fragment.node in self._site.idle
        wanted = self.lent.running_on(fragment.node) + self._each[fragment.trainer]
        return wanted.fits(self._shared.left_of(fragment.node))

    def _parts_lent(self) -> Mapping[str, Amount]:
        """Node → amount that fragments have of it, without those that Slurm has not started yet."""
        found: dict[str, Amount] = {}
        for fragment in self.lent.open:
            if fragment.state is not FragmentState.ASKED:
                found[fragment.node] = found.get(fragment.node, Amount()) + self._each[fragment.trainer]
        return found

    def _nodes_of_users(self) -> Counter[str]:
        used: Counter[str] = Counter()
        for trainer, run in self.running.items():
            used[run.request.owner] += self.lent.running_of[trainer]
        # The plus drops users that have none.
        return +used

    def _wanted_s(self) -> Mapping[str, float]:
        """Node → time at which Slurm plans a job there, as the last look expected it; it rounds its plans down."""
        step_s, margin_s = self._rules.nodes.backfill.resolution_s, self._rules.nodes.margin_s
        ends = self._hole_ends_s.items()
        if self._shared is not None:  # new places alone; what is lent already may stay beside the job that starts
            ends = {node_of(name): end_s for name, end_s in ends if is_new(name)}.items()
        return {name: (end_s + margin_s) // step_s * step_s for name, end_s in ends if end_s < inf}


# As of the daemon's timetable: what happens closer together is answered by one look.
_BETWEEN_LOOKS_S = 0.5
_MAX_AT_ONCE = 10
# While nothing happens a look finds what the last one found, but for what time alone changes; of that the worth of
# holes, which shorten, is not foreseen.
_AT_LATEST_S = 600.0


class DaemonReplay:
    """Replays a log once, with the daemon's judge and at the daemon's pace.

    Args:
        logged: its jobs; None: it tells of nodes only.
        places: room for tasks, on nodes with jobs and without, where nodes are lent in parts.
        as_ideal: look whenever something has happened, and see no job before it starts: what the holes allow.
    """

    def __init__(
        self,
        holes: Holes,
        logged: LoggedJobs | None,
        setup: ReplaySetup,
        rules: Rules,
        timing: Timing,
        places: TaskPlaces | None = None,
        as_ideal: bool = False,
    ) -> None:
        self._as_ideal = as_ideal
        # Why a job waited although nodes were free the log does not say: that is no harm of freetrain's.
        rules = replace(rules, harm=replace(rules.harm, pause_s=0.0))
        self._until_s = holes.until_s
        self._rules = rules
        self._timing = timing
        self._goal = setup.goal
        shared = SharedNodes(holes.node_names, logged, places) if places and logged is not None else None
        self._site = LoggedSite(holes, logged, rules.nodes.partition, shared, shows_waiting=not as_ideal)
        watts = {} if shared is not None else watts_of(holes, rules.draw)
        objective, as_published = setup.goal.objective, setup.costs.as_published
        self._cluster = SimulatedCluster(
            self._site, rules, timing, objective, holes.from_s, watts, shared, as_published
        )
        lent = places.holes if places else holes
        self._course = Course(self._cluster, lent, setup, rules.sharing.max_running)
        self._loop = LendingLoop(self._cluster, rules, self._course, setup.stopwatch_s, self._cluster.on_judgement)
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
        now_s, soonest_s = self._cluster.now_s, self._looked_s + _BETWEEN_LOOKS_S
        if submitted:
            self._look_s = min(self._look_s, max(now_s + wakes.submission_s, soonest_s))
        if ended:
            self._look_s = min(self._look_s, max(now_s + wakes.end_s, soonest_s))

    def _look_at_once(self) -> None:
        now_s = self._cluster.now_s
        self._looks_now = self._looks_now + 1 if now_s == self._looked_s else 0
        # Each look may make something happen at once: this must come to an end.
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
        self._stale_s = min(now_s + _AT_LATEST_S, judgement.next_change_s)
        self._note_forecasts(judgement)
        return True

    def _note_forecasts(self, judgement: Judgement) -> None:
        margin_s = self._rules.nodes.margin_s
        ends_s = judgement.hole_ends_s.items()
        # Plans are compared as Slurm made them, without the margin by which nodes are given back before them.
        planned_s = ((name, end_s + margin_s) for name, end_s in ends_s if end_s < inf)
        memory = judgement.memory
        self._course.forecasts.note(judgement.now_s, memory.stays, planned_s, memory.planned_stays)
