"""The replay as the holes allow: a machine whose idle nodes come and go as a log shows, with simulated trainers.

The loop is driven by the log's clock instead of the wall's.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from statistics import fmean

from freetrain.core.aim import read_aim
from freetrain.core.classes import holders_of
from freetrain.core.data_wait import SharedNode
from freetrain.core.holes import Holes
from freetrain.core.objectives import worth_per_s
from freetrain.core.place import Place, node_of
from freetrain.core.plan import Action, Lend, PlaceServers, Release
from freetrain.core.power import NO_DRAW, PowerDraw
from freetrain.core.problem import Question
from freetrain.core.trainer import Serving, Trainer, TrainerPast
from freetrain.lending.hole_ends import in_few_classes
from freetrain.lending.planned_stays import SOON_S, PlannedStays
from freetrain.lending.stays import SizeChanges, Stays
from freetrain.loop.cycle import run_cycle
from freetrain.replay.course import Course, ReplayRecord, ReplaySetup
from freetrain.replay.foresight import Foresight, Knowledge, SitePlans
from freetrain.replay.logs import LoggedJobs
from freetrain.replay.nodes import IdleNodes, node_changes, watts_of
from freetrain.replay.trainer_run import Loss, PlaceLeases, TrainerRun
from freetrain.replay.trainers import with_other_kinds


@dataclass(frozen=True, slots=True)
class Idle:
    """The idle nodes at one instant, for all trainers together: nothing is withheld.

    That is what holes allow.

    Attributes:
        nodes: idle nodes, lent ones included.
        horizon_s: seconds ahead for which value is counted.
        orders: releases of nodes on which jobs would start now, and of those of trainers that no longer compete.
        serving: trainer → those of its nodes that it is to have servers on.
        changes: how often growing and shrinking are charged.
    """

    now_s: float
    nodes: Sequence[Place]
    trainers: tuple[Trainer, ...]
    horizon_s: float
    orders: tuple[Action, ...] = ()
    runs: Mapping[str, TrainerRun] = field(default_factory=dict)
    serving: Serving = field(default_factory=dict)
    changes: float = 1.0

    def among(self, trainers: tuple[Trainer, ...]) -> Idle:
        """The idle nodes for these trainers alone; what other trainers have is given back first."""
        competing = {None, *(trainer.id for trainer in trainers)}
        if holders_of(self.nodes) <= competing:
            return replace(self, trainers=trainers)
        given_up = ((node.name, node.holder) for node in self.nodes if node.holder not in competing)
        orders = _releases(given_up, "it does not compete for nodes")
        nodes = tuple(node if node.holder in competing else replace(node, holder=None) for node in self.nodes)
        return replace(self, nodes=nodes, trainers=trainers, orders=(*self.orders, *orders))

    @property
    def questions(self) -> Sequence[Question]:
        """One question, about all nodes and trainers."""
        return ((self.nodes, self.trainers),)

    @property
    def done_samples(self) -> Mapping[str, float]:
        """Trainer → samples that it has done."""
        return {id_: run.samples_at(self.now_s) for id_, run in self.runs.items()}

    def limit_s(self, node: str) -> float:
        """Time limit of a fragment there: none, it stays as long as the node is idle."""
        return inf

    def shared_nodes(self, lent: Mapping[str, Sequence[str]]) -> Iterable[SharedNode]:
        """None, since nodes are lent whole."""
        return ()


def _releases(held: Iterable[tuple[str, str | None]], why: str) -> tuple[Release, ...]:
    """An order to each holder of these nodes, by name and holder, to give them back."""
    names: defaultdict[str | None, list[str]] = defaultdict(list)
    for name, holder in held:
        names[holder].append(name)
    return tuple(Release(tuple(its_names), why, holder) for holder, its_names in names.items())


class ReplayedCluster:
    """Idle nodes, admitted trainers and the nodes that each has, at one instant of the log.

    Args:
        holes: the nodes' kinds, which matter while a trainer competes that tells kinds apart, and whether what is
            lent are places on nodes that jobs share.
        watts_of: node → what it takes while it is lent; empty: nobody says.

    Attributes:
        running: admitted trainers by id, in order of admission.
        stays: times that nodes stay idle, as the log so far has shown.
        size_changes: rate of trainers' changes of size, as the replay so far has shown; learned where it is used.
        leases: leases of places; None: nodes are lent whole, and leases are not kept.
        planned_s: node → when a job is planned to start there, as of the last look.
        planned_stays: scores of such plans: how well they foretold when nodes are taken.
        believed_s: node → when it is expected to be taken, where its plan is believed.
        due: nodes that are left free for jobs which would start there now.
    """

    def __init__(
        self,
        holes: Holes,
        setup: ReplaySetup,
        foresight: Foresight,
        plans: SitePlans | None,
        watts_of: Mapping[str, float],
    ) -> None:
        self.leases = PlaceLeases() if holes.in_parts else None
        self._idle_on: defaultdict[str, dict[str, None]] = defaultdict(dict)
        self._kind_of = holes.kind_of
        self._watts_of = watts_of
        self._objective = setup.goal.objective
        self._counts_watts = bool(watts_of) and read_aim(self._objective).energy > 0
        self._plans = plans
        self.planned_s: Mapping[str, float] = {}
        self.planned_stays = PlannedStays()
        self.believed_s: Mapping[str, float] = {}
        self.due: frozenset[str] = frozenset()
        self._planned_at_s = holes.from_s
        self._foresight = foresight
        self._sees_ends = foresight.knows is Knowledge.PERFECT
        self._learns = foresight.knows in (Knowledge.LEARNED, Knowledge.PLAN)
        self.stays = Stays()
        self.size_changes = SizeChanges()
        self._as_published = setup.costs.as_published
        self.now_s = holes.from_s
        self.running: dict[str, TrainerRun] = {}
        self.retired_samples = 0.0
        self._idle = IdleNodes()
        self._serving: dict[str, tuple[str, ...]] = {}

    @property
    def idle_nodes(self) -> int:
        """Number of idle nodes, lent ones included."""
        return len(self._idle)

    @property
    def lent_nodes(self) -> int:
        """Number of idle nodes that trainers have."""
        return len(self._idle) - self._idle.free_nodes

    def observe(self) -> Idle:
        """Idle nodes and trainers of this instant."""
        trainers = tuple(run.trainer for run in self.running.values())
        # Learned before the look ahead: how far this decision counts follows from what is seen now, too.
        horizon_s, changes = self.learn()
        nodes = self._foreseen(horizon_s)
        orders, serving = self._due(), dict(self._serving)
        return Idle(self.now_s, nodes, trainers, horizon_s, orders, self.running, serving, changes)

    def past_of(self, trainers: Collection[str]) -> Mapping[str, TrainerPast]:
        """Trainer → what it has done and had by now; only of those that run."""
        return {id_: self.running[id_].past_at(self.now_s) for id_ in trainers if id_ in self.running}

    def act(self, action: Action, decision: str | None = None) -> None:
        """Lend or release nodes; how fast a trainer is does not depend on its servers here."""
        if isinstance(action, Lend):
            run = self.running[action.trainer]
            # Without a boot the nodes train at once, and the pause for growing is charged now.
            begin = run.boot if run.trainer.boot_s else run.grow
            begin(action.nodes, self.now_s)
            self._hold(action.nodes, action.trainer)
        elif isinstance(action, Release) and action.trainer is not None:
            self.running[action.trainer].shrink(action.nodes, self.now_s)
            self._hold(action.nodes, None)
        elif isinstance(action, PlaceServers):
            self._serving[action.trainer] = action.nodes

    def learn(self) -> tuple[float, float]:
        """Learn from what is seen now; the horizon of a decision in seconds, and how often it charges changes.

        Where nothing is decided all nodes may have been taken, which plans are scored by.
        """
        self.stays = self.stays.after_changes(self.now_s, sorted(self._idle.came), self._idle.gone)
        self._idle.note_seen()
        self.note_sizes()
        horizon_s, changes = self._look_ahead()
        self._look_at_plans(horizon_s)
        return horizon_s, changes

    def note_sizes(self) -> None:
        """Learn from the sizes that trainers have now: before a decision and after it, so that none is missed."""
        # Sizes are learned only where the horizon charges changes of size by how often they happen.
        if self._learns:
            rescaling = ((id_, run) for id_, run in self.running.items() if run.trainer.rescales)
            sizes = {id_: len(run.nodes) + len(run.booting_s) for id_, run in rescaling}
            self.size_changes = self.size_changes.after(self.now_s, sizes)

    @property
    def next_booted_s(self) -> float:
        """Time at which the next lent nodes will have booted; inf: none boots."""
        return min((min(run.booting_s.values()) for run in self.running.values() if run.booting_s), default=inf)

    def finish_boots(self) -> bool:
        """Let trainers train on what has booted by now; whether anything has."""
        # A list, so that any() does not stop at the first.
        booted = [run.finish_boots(self.now_s) for run in self.running.values() if run.booting_s]
        return any(booted)

    def holder_of(self, node: str) -> str | None:
        """Holder of this node: a trainer's id, "" where it is idle, None where it is busy."""
        holder = self._idle.holder
        return (holder[node] or "") if node in holder else None

    def join(self, nodes: Mapping[str, float]) -> None:
        """Let these nodes become idle, until then (inf: until the window ends)."""
        for name, until_s in nodes.items():
            is_known = self._sees_ends and until_s < inf
            self._idle.join(name, until_s if is_known else None)
            self._note_holder(name, None)

    def leave(self, nodes: Sequence[str]) -> None:
        """Take these nodes back; each trainer that has some of them is hurt once, less where it was known."""
        if self.leases is not None:
            self._let_idle_places_leave(nodes)
        evicted: defaultdict[str, set[str]] = defaultdict(set)
        for name in nodes:
            holder = self._idle.leave(name)
            if holder is not None:
                evicted[holder].add(name)
        for holder, names in evicted.items():
            was_known = self._sees_ends or all(map(self._was_planned, names))
            self.running[holder].evict(names, self.now_s, was_known=was_known)

    def admit(self, trainer: Trainer) -> TrainerRun:
        """Let a trainer compete for nodes from now on."""
        worth = worth_per_s(trainer, self._objective)
        trainer = with_other_kinds(trainer, self._kind_of.values())
        run = TrainerRun(trainer, worth, self.now_s, self._as_published, self._kind_of, self._watts_of)
        self.running[trainer.id] = run
        return run

    def retire(self, trainer_id: str) -> None:
        """Retire a trainer that has reached its target."""
        run = self.running.pop(trainer_id)
        self._serving.pop(trainer_id, None)
        self._hold(self._idle.of(trainer_id), None)
        run.complete(self.now_s)
        self.retired_samples += run.samples

    def _look_ahead(self) -> tuple[float, float]:
        if self._foresight.horizon_s:
            return self._foresight.horizon_s, 1.0
        if not self._learns:
            return self.stays.expected_s, 1.0
        horizon_s = self.stays.expected_by_age_s
        return horizon_s, self.size_changes.within(horizon_s)

    def _look_at_plans(self, horizon_s: float) -> None:
        """Score the plans that came true, or did not, and find which of those of now are believed."""
        if self._plans is None:
            return
        self.planned_s, self._planned_at_s = self._plans.look(self.now_s), self.now_s
        idle = self._idle.holder
        self.planned_stays = self.planned_stays.after(self.now_s, idle, self.planned_s, horizon_s)
        self.believed_s = self.planned_stays.believed_s(self.now_s, self.planned_s, horizon_s)
        self.due = frozenset()
        if self.planned_stays.leaves_now(*self._leaving_node_s()):
            self.due = frozenset(
                name for name, end_s in self.planned_s.items() if end_s <= self.now_s and name in idle
            )

    def _leaving_node_s(self) -> tuple[float, float]:
        """Seconds × nodes that giving nodes back saves where they are taken, and costs where they are not."""
        runs = [run for run in self.running.values() if run.nodes]
        if not runs:
            return 0.0, 0.0
        nodes = fmean(len(run.nodes) for run in runs)
        lost_s, evictions = (
            sum(run.lost_s[Loss.EVICTION] + run.lost_s[Loss.EVICTION_PAUSE] for run in runs),
            sum(run.losses[Loss.EVICTION] for run in runs),
        )
        # All trainers' evictions together, since each has seen too few; what owners say counts as one more.
        eviction_s = (fmean(run.trainer.eviction_s for run in runs) + lost_s) / (1 + evictions)
        shrink_s = fmean(run.trainer.scale_down_s for run in runs)
        grow_s = fmean(run.trainer.scale_up_s for run in runs)
        # Rounded: where an eviction costs what giving back costs, nothing is saved.
        return round(max(eviction_s - shrink_s, 0.0) * nodes, 6), (shrink_s + grow_s) * nodes

    def _foreseen(self, horizon_s: float) -> Sequence[Place]:
        """Idle nodes, lent or free, but those that are due now, with the ends that are believed, or known."""
        has_kinds = any(run.trainer.choices is not None for run in self.running.values())
        if self._plans is None and not (self._sees_ends or has_kinds or self._counts_watts):
            return self._idle.alike
        nodes = self._idle.offers
        if self._plans is not None:
            ends_s = self.believed_s
            free = (node for node in nodes if node.name not in self.due)
            nodes = tuple(replace(node, until_s=ends_s.get(node.name)) for node in free)
        if self._plans is not None or self._sees_ends:
            nodes = in_few_classes(nodes, self.now_s, horizon_s, (run.trainer for run in self.running.values()))
        if has_kinds:
            nodes = tuple(node.having(kind=self._kind_of.get(node.name, "")) for node in nodes)
        if self._counts_watts:
            nodes = tuple(node.having(watts=self._watts_of[node.name]) for node in nodes)
        return nodes

    def _due(self) -> tuple[Action, ...]:
        """Orders to give back lent nodes on which jobs are believed to start now."""
        holders = ((name, self._idle.holder.get(name)) for name in sorted(self.due))
        lent = ((name, holder) for name, holder in holders if holder is not None)
        return _releases(lent, "a job could start here")

    def _was_planned(self, name: str) -> bool:
        """Whether Slurm's plans showed its end beforehand, so that it was given back in good order."""
        planned_s = self.planned_s.get(name, inf)
        return self._planned_at_s < planned_s and abs(planned_s - self.now_s) <= SOON_S

    def _hold(self, nodes: Collection[str], holder: str | None) -> None:
        self._idle.hold(nodes, holder)
        if self.leases is not None:
            for name in nodes:
                self._note_holder(name, holder)

    def _note_holder(self, place: str, holder: str | None) -> None:
        if self.leases is None:
            return
        self.leases.note(place, holder, self.now_s)
        if holder is None:
            self._idle_on[node_of(place)][place] = None
        else:
            self._idle_on[node_of(place)].pop(place, None)

    def _let_idle_places_leave(self, places: Sequence[str]) -> None:
        """Exchange lent places that leave for idle ones, as far as their nodes have any that stay."""
        for name in places:
            self._idle_on[node_of(name)].pop(name, None)
        for name in places:
            holder, others = self._idle.holder[name], self._idle_on[node_of(name)]
            if holder is not None and others:
                # Which CPUs or GPUs of a node somebody has matters to nobody: a job that finds as much free takes
                # nothing back. So the lent place changes its name with an idle one.
                other = next(iter(others))
                self.running[holder].rename(name, other)
                self._hold((other,), holder)
                self._idle.hold((name,), None)
            if self.leases is not None:
                self.leases.note(name, None, self.now_s)


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
            self._cluster.learn()
        self._course.note()
