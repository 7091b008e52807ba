"""What the loop observes and acts on: a site as its log tells it, with fragments on its nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence, Set
from dataclasses import replace
from math import inf
from types import MappingProxyType

from freetrain.core.amounts import Amount
from freetrain.core.fragment import End, Fragment, FragmentState
from freetrain.core.objectives import worth_per_s
from freetrain.core.place import is_new, node_of
from freetrain.core.plan import Action, Lend, Limit, PlaceServers, Release
from freetrain.core.trainer import Trainer, TrainerPast
from freetrain.lending.facts import Facts
from freetrain.lending.judge import Judgement
from freetrain.lending.limits import whole_minutes_s
from freetrain.lending.rules import Rules
from freetrain.lending.sharing.past_use import PastUse
from freetrain.replay.as_daemon.lent import LentNodes
from freetrain.replay.as_daemon.site import JobStart, LoggedSite, SharedNodes, SiteEvents
from freetrain.replay.as_daemon.timing import BackfillCycles, Timing
from freetrain.replay.course import SiteImpact
from freetrain.replay.trainer_run import TrainerRun


class SimulatedCluster:
    """Observed and acted on by the same loop as Slurm: see :class:`freetrain.loop.cycle.Cluster`.

    Args:
        site: the site's own side.
        rules: how the site lends, and how its Slurm plans.
        timing: how long things take.
        objective: name of what is maximised.
        now_s: the first instant.
        watts_of: node → what it takes while it is lent; empty: nobody says.
        shared: what jobs have of nodes that are lent in parts; None: nodes are lent whole.
        as_published: charge evictions as the published method does.

    Attributes:
        now_s: the instant, UTC epoch seconds.
        running: admitted trainings by id, in order of admission.
        lent: the nodes that are lent.
        retired_samples: samples of the trainings that have reached their target.
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
        """What Slurm would have shown."""
        # Each end is handed to the judge once, as to the daemon.
        ended, self.lent.ended = tuple(self.lent.ended), []
        requests = tuple(run.request for run in self.running.values())
        snapshot = self._site.snapshot(self.now_s, self._parts_lent() if self._shared else {})
        done = {run.trainer.id: run.samples_at(self.now_s) for run in self.running.values()}
        used_hours = self._past_use.after(self.now_s, self._nodes_of_users())
        return Facts(
            snapshot,
            self.lent.open,
            ended,
            requests,
            used_hours,
            last_plan_s=self.last_plan_s,
            done_samples=done,
            serving=dict(self._serving),
        )

    def past_of(self, trainers: Collection[str]) -> Mapping[str, TrainerPast]:
        """What these trainers have done and had by now."""
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
        """When Slurm last planned; None: where the log tells of no jobs nobody knows."""
        return self._cycles.last_s(self.now_s) if self._site.tells_of_jobs else None

    @property
    def next_s(self) -> float:
        """When something becomes of a fragment."""
        is_awaited = self.lent.queued and self._cycles.next_s > self.now_s
        return min(self.lent.next_s, self._cycles.next_s) if is_awaited else self.lent.next_s

    @property
    def site_impact(self) -> SiteImpact:
        """What the site has felt so far."""
        return SiteImpact(self._started, tuple(self._delays_s), self.lent.node_s)

    @property
    def idle_nodes(self) -> int:
        """Nodes that nobody of the site's has, or places."""
        return len(self._idle)

    @property
    def lent_nodes(self) -> int:
        """Nodes on which trainings are."""
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
        """Let become of the fragments what does until now; whether a training or a node is concerned."""
        queued = len(self.lent.queued)
        moved = self.lent.advance(self.now_s)
        if moved or len(self.lent.queued) > queued:
            self._cycles.note_change(self.now_s)
        return moved

    def start_fragments(self) -> None:
        """Let Slurm start those it can: at once while nobody waits, else by backfill."""
        somebody_waits = bool(self.lent.queued) and self._site.somebody_waits
        if self.lent.queued and (not somebody_waits or self._cycles.last_s(self.now_s) == self.now_s):
            wanted_s = self._wanted_s() if somebody_waits else {}
            self.lent.start(self._has_room, wanted_s, self.now_s, by_backfill=somebody_waits)
            self._cycles.note_change(self.now_s)

    def advance_site(self) -> SiteEvents:
        """Take in what happens on the site's side now."""
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
        """Jobs of the site's start; how many seconds each waits for fragments."""
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
        """Node → what fragments have of it; of those that were asked for Slurm does not know yet."""
        found: dict[str, Amount] = {}
        for fragment in self.lent.open:
            if fragment.state is not FragmentState.ASKED:
                found[fragment.node] = found.get(fragment.node, Amount()) + self._each[fragment.trainer]
        return found

    def _nodes_of_users(self) -> Counter[str]:
        """User → how many nodes run fragments of their trainings."""
        used: Counter[str] = Counter()
        for trainer, run in self.running.items():
            used[run.request.owner] += self.lent.running_of[trainer]
        return +used

    def _wanted_s(self) -> Mapping[str, float]:
        """Node → when Slurm has planned somebody there, as the last look expected it; it rounds its plans down."""
        step_s, margin_s = self._rules.nodes.backfill.resolution_s, self._rules.nodes.margin_s
        ends = self._hole_ends_s.items()
        if self._shared is not None:  # new places alone; what is lent already may stay beside the job that starts
            ends = {node_of(name): end_s for name, end_s in ends if is_new(name)}.items()
        return {name: (end_s + margin_s) // step_s * step_s for name, end_s in ends if end_s < inf}
