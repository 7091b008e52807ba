"""The course of a replay: what every replay keeps of how it goes, whoever decides, and what comes of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import inf
from typing import Protocol

from freetrain.core.decision import Decision
from freetrain.core.holes import Holes
from freetrain.core.problem import Problem
from freetrain.core.topology import FLAT, Topology
from freetrain.core.trainer import Trainer
from freetrain.lending.facts import Request
from freetrain.loop.cycle import Journal
from freetrain.replay.admission import Admission
from freetrain.replay.division import Divider
from freetrain.replay.forecast_score import ForecastLog, ForecastScore
from freetrain.replay.leaf_links import LeafLinks
from freetrain.replay.lent_times import LentTime
from freetrain.replay.timeline import Pictured, Timeline
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
        runs: every trainer that came in, in order.
        timeline: how it went.
        oracle_work: work of the best division at every instant, changes costing nothing.
        events: instants at which something happened.
        forecast: how good the forecasts of the ends of holes were, whether they were used or not.
        felt: what the site feels; None: it was not asked.
        leaf_links: links between leaves in a training's ring, mean over time; None: no switches are known.
        leaf_bytes: that went from leaf to leaf; None: no switches are known, or nobody's gradients.
        lent_times: who had which place when, where places on shared nodes were lent.
    """

    holes: Holes
    runs: tuple[TrainerRun, ...]
    timeline: Timeline
    oracle_work: float
    events: int
    forecast: ForecastScore
    felt: Felt | None = None
    leaf_links: float | None = None
    leaf_bytes: float | None = None
    lent_times: tuple[LentTime, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class _Here:
    """Those who have come in and are not complete, in order.

    Attributes:
        ids: who.
        trainers: they themselves.
        requests: the same as the daemon's rules see them.
        least: fewest nodes of each.
    """

    ids: tuple[str, ...] = ()
    trainers: tuple[Trainer, ...] = ()
    requests: tuple[Request, ...] = ()
    least: tuple[int, ...] = ()

    def trainers_of(self, requests: tuple[Request, ...]) -> tuple[Trainer, ...]:
        """The trainers of some of the requests."""
        if requests is self.requests:
            return self.trainers
        ids = {one.id for one in requests}
        return tuple(one for one in self.trainers if one.id in ids)


class Replayed(Pictured, Protocol):
    """A cluster that is replayed."""

    @property
    def idle_nodes(self) -> int:
        """How many nodes are idle, lent ones included."""

    def admit(self, trainer: Trainer) -> TrainerRun:
        """Let a trainer compete for nodes from now on."""


class Course:
    """How a replay goes.

    Args:
        cluster: what is replayed; its clock is set from here.
        holes: what the log left idle.
        trainers: who wants it, in order of submission.
        objective: name of what is maximised.
        max_running: most trainers that may compete at once, of those that could run.
        journal: where decisions are kept.
        topology: the switches.

    Attributes:
        events: instants at which something happened.
        forecasts: compares them with what the log says later.
    """

    def __init__(
        self,
        cluster: Replayed,
        holes: Holes,
        trainers: Iterable[Trainer],
        objective: str,
        max_running: int,
        journal: Journal,
        topology: Topology = FLAT,
    ) -> None:
        self._cluster = cluster
        self._links = LeafLinks(topology)
        self._holes = holes
        self._admission = Admission(trainers, max_running)
        self._journal = journal
        self._timeline = Timeline(holes)
        self._divider = Divider(objective)
        self._were_here = _Here()
        self._divided: tuple[int, _Here] | None = None
        self._competed: tuple[tuple[int, _Here], tuple[Trainer, ...]] | None = None
        self._runs: list[TrainerRun] = []
        self._oracle_work = self._oracle_work_per_s = 0.0
        self.events = 0
        self.forecasts = ForecastLog(holes)

    def next_s(self) -> float:
        """When the next trainer arrives or completes; inf: there are none."""
        completes_s = min((run.completes_s for run in self._cluster.running.values()), default=inf)
        cluster = self._cluster
        return min(
            completes_s, self._admission.next_arrival_s(self._here.least, cluster.idle_nodes, cluster.now_s)
        )

    @property
    def is_over(self) -> bool:
        """Whether nobody is left who could train."""
        return not self._cluster.running and self._admission.is_empty

    def advance(self, at_s: float) -> None:
        """Let time pass until then."""
        self._oracle_work += self._oracle_work_per_s * (at_s - self._cluster.now_s)
        self._links.pass_time(at_s - self._cluster.now_s)
        self._cluster.now_s = at_s

    def admit(self) -> bool:
        """Let trainers come in for whom there is a place; whether any did."""
        cluster = self._cluster
        coming = self._admission.let_in(self._here.least, cluster.idle_nodes, cluster.now_s)
        self._runs += [cluster.admit(one) for one in coming]
        return bool(coming)

    def competing(self) -> tuple[Trainer, ...]:
        """Those who may have some of what is idle now; the same as long as neither nodes nor trainers change."""
        there = nodes, here = self._there
        if self._competed is None or self._competed[0] != there:
            competing = self._admission.competing(here.requests, nodes)
            # What it is asked as a request names no kinds of nodes.
            self._competed = there, here.trainers_of(competing)
        return self._competed[1]

    def note(self) -> None:
        """Note how things stand after an event."""
        self._timeline.note(self._cluster)
        self._links.note(self._cluster.running.values())
        if (there := self._there) != self._divided:
            self._divided = there
            self._oracle_work_per_s = self._divider.best_worth_per_s(self.competing(), self._cluster.idle_nodes)

    def next_decision(self) -> str:
        """How the journal will call the next one."""
        return self._journal.next_decision()

    def record(self, problem: Problem, decision: Decision) -> None:
        """Keep a decision in the timeline and in the journal; one about nobody is none."""
        if problem.trainers:
            self._timeline.decided(decision)
            self._journal.record(problem, decision)

    def finish(self) -> None:
        """Let the window end."""
        self.advance(self._holes.until_s)
        for run in self._cluster.running.values():
            run.settle(self._holes.until_s)

    def outcome(self, felt: Felt | None = None) -> ReplayRecord:
        """What came of it."""
        runs, forecast = tuple(self._runs), self.forecasts.score()
        return ReplayRecord(
            self._holes,
            runs,
            self._timeline,
            self._oracle_work,
            self.events,
            forecast,
            felt,
            self._links.mean,
            self._links.bytes,
        )

    @property
    def _there(self) -> tuple[int, _Here]:
        """How many nodes are idle, and who is there."""
        return self._cluster.idle_nodes, self._here

    @property
    def _here(self) -> _Here:
        running = self._cluster.running
        if tuple(running) != self._were_here.ids:
            trainers = tuple(run.trainer for run in running.values())
            requests = tuple(run.request for run in running.values())
            least = tuple(one.min_nodes for one in trainers)
            self._were_here = _Here(tuple(running), trainers, requests, least)
        return self._were_here
