"""The course of a replay: admission, timeline and record, the same for every replay.

The timeline (nodes, rates, who had which pictured node when), links between leaf switches, the best division at
every instant, and the forecasts: noted after each event, for the outcome and for the report.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from math import inf
from typing import Any, Protocol

from freetrain.core.decision import Decision
from freetrain.core.holes import Holes
from freetrain.core.place import Lease
from freetrain.core.problem import Problem
from freetrain.core.topology import FLAT, Topology, nodes_by_leaf
from freetrain.core.trainer import Trainer
from freetrain.lending.facts import Request
from freetrain.loop.cycle import Goal, Journal, NullJournal
from freetrain.replay.foresight import ForecastLog, ForecastScore
from freetrain.replay.trainer_run import PlaceLeases, TrainerRun
from freetrain.replay.trainers import TrainerQueue
from freetrain.replay.yardsticks import Divider
from freetrain.showing.words import natural_order

PICTURED_NODES = 64


@dataclass(frozen=True, slots=True)
class Costs:
    """Costs in seconds that replace those of every trainer, where given; and the way to charge evictions.

    Attributes:
        as_published: whether evictions are charged as published: whole, even if that takes more than was trained.
    """

    scale_up_s: float | None = None
    scale_down_s: float | None = None
    forced_loss_s: float | None = None
    start_s: float | None = None
    boot_s: float | None = None
    as_published: bool = False

    @property
    def given(self) -> dict[str, Any]:
        """Costs that are given, by the names that they have in a trainer."""
        names = ("scale_up_s", "scale_down_s", "forced_loss_s", "start_s", "boot_s")
        return {name: seconds for name in names if (seconds := getattr(self, name)) is not None}

    def apply(self, trainers: Iterable[Trainer]) -> Iterator[Trainer]:
        """The trainers with these costs."""
        given = self.given
        return (replace(trainer, **given) for trainer in trainers)


@dataclass(frozen=True, slots=True)
class ReplaySetup:
    """Input of every replay beside its log: trainers, how it is decided, and where decisions go."""

    trainers: Iterable[Trainer]
    goal: Goal
    stopwatch_s: Callable[[], float]
    costs: Costs = Costs()
    topology: Topology = FLAT
    journal: Journal = field(default_factory=NullJournal)


class CourseCluster(Protocol):
    """A cluster that is replayed."""

    now_s: float
    running: dict[str, TrainerRun]
    retired_samples: float

    @property
    def lent_nodes(self) -> int:
        """Number of idle nodes that trainers have."""

    @property
    def idle_nodes(self) -> int:
        """Number of idle nodes, lent ones included."""

    def holder_of(self, node: str) -> str | None:
        """Holder of this node: a trainer's id, "" where it is idle, None where it is busy."""

    def admit(self, trainer: Trainer) -> TrainerRun:
        """Let a trainer compete for nodes from now on."""


class Timeline:
    """Lent nodes and training rate after every event, leases of some nodes, and how decisions were found.

    Attributes:
        pictured: the nodes whose leases are kept, spread evenly over those that are ever idle, numbers in their
            names in order.
        ever_idle_nodes: number of nodes that are ever idle.
    """

    def __init__(self, holes: Holes) -> None:
        self.at_s: list[float] = []
        self.lent_nodes: list[int] = []
        self.samples_per_s: list[float] = []
        self.samples: list[float] = []
        self.solve_s: list[float] = []
        self.statuses: Counter[str] = Counter()
        ever_idle = natural_order(holes.node_names[node] for node in set(holes.node.tolist()))
        self.ever_idle_nodes = len(ever_idle)
        # Rounded up, so that there are never more rows than the picture has.
        self.pictured = tuple(ever_idle[:: max(1, -(-len(ever_idle) // PICTURED_NODES))])
        self.leases = PlaceLeases()
        self._trainer: dict[str, str | None] = dict.fromkeys(self.pictured)

    def decided(self, decision: Decision) -> None:
        """Note how a decision was found."""
        self.solve_s.append(decision.solve_s)
        self.statuses[f"{decision.status} ({decision.solver})"] += 1

    def note(self, cluster: CourseCluster) -> None:
        """Note the state after an event."""
        now_s, samples, samples_per_s = cluster.now_s, cluster.retired_samples, 0.0
        for run in cluster.running.values():
            samples += run.samples_at(now_s)
            samples_per_s += run.rate
        self.at_s.append(now_s)
        self.lent_nodes.append(cluster.lent_nodes)
        self.samples_per_s.append(samples_per_s)
        self.samples.append(samples)
        for name in self.pictured:
            trainer = cluster.holder_of(name) or None
            if trainer != self._trainer[name]:
                self._trainer[name] = trainer
                self.leases.note(name, trainer, now_s)


class LeafLinks:
    """Links between leaves, integrated over time.

    Ranks follow the switches, so a ring enters and leaves each of its leaves once: it has as many links between
    leaves as it has leaves, and none if that is one. Each link carries 2 (n - 1)/n times the bytes of the
    gradients in every step, n being the nodes: those of a node add up their gradients first.
    """

    def __init__(self, topology: Topology) -> None:
        self._topology = topology
        self._of: dict[str, tuple[set[str], int]] = {}
        self._links = self._rings = 0
        self._bytes_per_s = self._link_s = self._ring_s = 0.0
        self._bytes: float | None = None

    def pass_time(self, seconds: float) -> None:
        """Let time pass in which nothing changes."""
        self._link_s += self._links * seconds
        self._ring_s += self._rings * seconds
        if self._bytes is not None:
            self._bytes += self._bytes_per_s * seconds

    def note(self, runs: Iterable[TrainerRun]) -> None:
        """Note how things stand after an event."""
        if self._topology.leaves:
            links = [(run, self._links_of(run)) for run in runs if run.nodes]
            self._links, self._rings = sum(count for _, count in links), len(links)
            bytes_per_s = (count * run.trainer.link_bytes_per_s(len(run.nodes)) for run, count in links if count)
            self._bytes_per_s = sum(bytes_per_s)
            if self._bytes is None and any(run.trainer.bytes_per_sample for run, _ in links):
                self._bytes = 0.0

    @property
    def bytes(self) -> float | None:
        """Bytes that went from leaf to leaf; None: no switches are known, or nobody's gradients."""
        return self._bytes

    @property
    def mean(self) -> float | None:
        """Links between leaves of a training that has nodes; None: no switches are known, or nobody trained."""
        return self._link_s / self._ring_s if self._ring_s > 0 else None

    def _links_of(self, run: TrainerRun) -> int:
        nodes, links = self._of.get(run.trainer.id, (None, 0))
        # A run has a new set of nodes whenever they change, so their leaves are counted once.
        if nodes is not run.nodes:
            leaves = len(nodes_by_leaf(run.nodes, self._topology))
            links = leaves if leaves > 1 else 0
            self._of[run.trainer.id] = run.nodes, links
        return links


@dataclass(frozen=True, slots=True)
class SiteImpact:
    """Impact on the site of a replay as the daemon would have gone.

    Attributes:
        delays_s: seconds that each job waited which had to wait for fragments.
        lent_node_s: seconds of idle nodes on which fragments ran, whether a training was on them or not yet.
    """

    starts: int
    delays_s: tuple[float, ...]
    lent_node_s: float


@dataclass(frozen=True, slots=True)
class ReplayRecord:
    """Record of a replay: its trainers, timeline, best division and forecasts.

    Attributes:
        runs: every trainer that came in, in order.
        oracle_work: work of the best division at every instant, changes costing nothing.
        forecast: score of the forecasts of the ends of holes, whether they were used or not.
        leaf_links: links between leaves in a training's ring, mean over time; None: no switches are known.
        leaf_bytes: bytes that went from leaf to leaf; None: no switches are known, or nobody's gradients.
        leases: places that trainers had and when, where places on shared nodes were lent.
        wall_s: seconds that the replay took; two records are equal without it.
    """

    holes: Holes
    runs: tuple[TrainerRun, ...]
    timeline: Timeline
    oracle_work: float
    events: int
    forecast: ForecastScore
    site_impact: SiteImpact | None = None
    leaf_links: float | None = None
    leaf_bytes: float | None = None
    leases: tuple[Lease, ...] = ()
    wall_s: float = field(default=0.0, compare=False)

    @property
    def samples(self) -> float:
        """Samples that all trainers trained, losses subtracted."""
        return sum(run.samples for run in self.runs)

    @property
    def work(self) -> float:
        """Work of all trainers, in the objective's unit."""
        return sum(run.work for run in self.runs)

    @property
    def held_node_s(self) -> float:
        """Node-seconds in which trainers had nodes."""
        return sum(run.node_s for run in self.runs)

    @property
    def lent_node_s(self) -> float:
        """Node-seconds in which nodes were lent: before a training began on them and while it left, too."""
        return self.held_node_s if self.site_impact is None else self.site_impact.lent_node_s

    @property
    def useful_node_s(self) -> float:
        """Node-seconds that were trained in, losses subtracted."""
        return self.held_node_s - sum(run.booting_node_s + run.lost_node_s for run in self.runs)


@dataclass(frozen=True, slots=True, eq=False)
class _Population:
    """The trainers that have come in and are not complete, in order.

    Attributes:
        requests: these trainers' requests, as the daemon's rules see them.
        least: minimum nodes of each.
    """

    ids: tuple[str, ...] = ()
    trainers: tuple[Trainer, ...] = ()
    requests: tuple[Request, ...] = ()
    least: tuple[int, ...] = ()

    def trainers_of(self, requests: tuple[Request, ...]) -> tuple[Trainer, ...]:
        if requests is self.requests:
            return self.trainers
        ids = {request.id for request in requests}
        return tuple(trainer for trainer in self.trainers if trainer.id in ids)


class Course:
    """Course of a replay: lets trainers in, keeps timeline and journal, and makes the record.

    Args:
        cluster: the cluster that is replayed; its clock is set from here.
        max_running: most trainers that may compete at once, of those that could run.

    Attributes:
        forecasts: forecasts, which are compared with what the log says later.
    """

    def __init__(self, cluster: CourseCluster, holes: Holes, setup: ReplaySetup, max_running: int) -> None:
        self._cluster = cluster
        self._links = LeafLinks(setup.topology)
        self._holes = holes
        self._admission = TrainerQueue(setup.costs.apply(setup.trainers), max_running)
        self._journal = setup.journal
        self._timeline = Timeline(holes)
        self._divider = Divider(setup.goal.objective)
        self._were_here = _Population()
        self._competed: tuple[tuple[int, _Population], tuple[Trainer, ...]] | None = None
        self._runs: list[TrainerRun] = []
        self._oracle_work = self._oracle_work_per_s = 0.0
        self.events = 0
        self.forecasts = ForecastLog(holes)

    def next_s(self) -> float:
        """Time at which the next trainer arrives or completes; inf: none does."""
        cluster = self._cluster
        completes_s = min((run.completes_s for run in cluster.running.values()), default=inf)
        arrives_s = self._admission.next_arrival_s(self._here.least, cluster.idle_nodes, cluster.now_s)
        return min(completes_s, arrives_s)

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
        """Let trainers come in while there is a place for them; whether any did."""
        cluster = self._cluster
        coming = self._admission.let_in(self._here.least, cluster.idle_nodes, cluster.now_s)
        self._runs += [cluster.admit(trainer) for trainer in coming]
        return bool(coming)

    def competing(self) -> tuple[Trainer, ...]:
        """The trainers that may have idle nodes now; the same tuple while neither nodes nor trainers change."""
        there = nodes, here = self._cluster.idle_nodes, self._here
        if self._competed is None or self._competed[0] != there:
            competing = self._admission.competing(here.requests, nodes)
            # What it is asked as a request names no kinds of nodes.
            self._competed = there, here.trainers_of(competing)
        return self._competed[1]

    def note(self) -> None:
        """Note how things stand after an event."""
        self._timeline.note(self._cluster)
        self._links.note(self._cluster.running.values())
        self._oracle_work_per_s = self._divider.best_worth_per_s(self.competing(), self._cluster.idle_nodes)

    def next_decision(self) -> str:
        """Name that the journal will give the next decision."""
        return self._journal.next_decision()

    def record(self, problem: Problem, decision: Decision) -> None:
        """Keep a decision in the timeline and in the journal, unless it is about no trainer."""
        if problem.trainers:
            self._timeline.decided(decision)
            self._journal.record(problem, decision)

    def finish(self) -> None:
        """Let the window end."""
        self.advance(self._holes.until_s)
        self._timeline.leases.finish(self._holes.until_s)
        for run in self._cluster.running.values():
            run.settle(self._holes.until_s)

    def outcome(self, site_impact: SiteImpact | None = None) -> ReplayRecord:
        """Record of the replay."""
        runs, forecast, links = tuple(self._runs), self.forecasts.score(), self._links
        oracle_work, events = self._oracle_work, self.events
        return ReplayRecord(
            self._holes, runs, self._timeline, oracle_work, events, forecast, site_impact, links.mean, links.bytes
        )

    @property
    def _here(self) -> _Population:
        running = self._cluster.running
        if tuple(running) != self._were_here.ids:
            trainers = tuple(run.trainer for run in running.values())
            requests = tuple(run.request for run in running.values())
            least = tuple(trainer.min_nodes for trainer in trainers)
            self._were_here = _Population(tuple(running), trainers, requests, least)
        return self._were_here
