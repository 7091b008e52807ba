"""A study: one log, one set of trainers, one way to decide, and what came of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from freetrain.core.holes import Holes, seen_by_polls
from freetrain.core.power import NO_DRAW, PowerDraw
from freetrain.core.topology import FLAT, Topology
from freetrain.core.trainer import Trainer
from freetrain.lending.rules import Rules
from freetrain.loop.cycle import Goal, Journal, NullJournal
from freetrain.replay.as_daemon.driver import DaemonReplay
from freetrain.replay.as_daemon.timing import Timing
from freetrain.replay.course import ReplayRecord
from freetrain.replay.driver import Replay
from freetrain.replay.estimate import DaemonEstimate
from freetrain.replay.foresight import Foresight
from freetrain.replay.logs import LoggedJobs, SiteLog
from freetrain.replay.outcome import ReplayOutcome, SiteOutcome, outcome_of, site_outcome_of
from freetrain.replay.yardsticks import DedicatedRecord, train_dedicated

AT_ONCE = Timing(poll_s=3600.0, wakes=None, launch_s=0.0, boot_s=0.0, leave_s=0.0, evict_s=0.0)
# A time limit that no window reaches: what the holes allow ends with the hole and never before.
_AS_LONG_AS_THERE_S = 1e9


@dataclass(frozen=True, slots=True)
class Costs:
    """Costs in seconds that replace those of every trainer, where given; and how evictions are charged.

    Attributes:
        as_published: as the published method does, whole, even if that takes more than was trained.
    """

    scale_up_s: float | None = None
    scale_down_s: float | None = None
    forced_loss_s: float | None = None
    start_s: float | None = None
    boot_s: float | None = None
    as_published: bool = False

    def apply(self, trainers: Iterable[Trainer]) -> Iterator[Trainer]:
        """The trainers with these costs."""
        given = {
            name: seconds
            for name in ("scale_up_s", "scale_down_s", "forced_loss_s", "start_s", "boot_s")
            if (seconds := getattr(self, name)) is not None
        }
        for trainer in trainers:
            yield replace(trainer, **given)


@dataclass(frozen=True, slots=True)
class DaemonSetup:
    """How a daemon would have gone about it."""

    rules: Rules
    goal: Goal
    timing: Timing


@dataclass(frozen=True, slots=True)
class DaemonReplayed:
    """A replay as the daemon would have gone, and the seconds that it took."""

    record: ReplayRecord
    wall_s: float


@dataclass(frozen=True, slots=True)
class DaemonStudy:
    """What the daemon would have got, and what the site's jobs would have felt."""

    how: DaemonSetup
    record: ReplayRecord
    outcome: ReplayOutcome
    site: SiteOutcome
    wall_s: float


@dataclass(frozen=True, slots=True)
class Study:
    """What came of a replay.

    Attributes:
        dedicated: the same trainers on a machine of their own.
        as_daemon: what the daemon would have got; None: it was not asked.
        on_shares: the same trainers on places, on nodes with jobs and without; None: it was not asked.
        estimate: what the daemon would have got, where only some hours were replayed; None: all were, or none.
    """

    record: ReplayRecord
    dedicated: DedicatedRecord
    outcome: ReplayOutcome
    wall_s: float
    as_daemon: DaemonStudy | None = None
    on_shares: Study | None = None
    estimate: DaemonEstimate | None = None

    @property
    def has_own_tasks(self) -> bool:
        """Whether a trainer says itself what its tasks ask for."""
        return any(run.trainer.task for run in self.record.runs)

    @property
    def events_per_s(self) -> float:
        """Events replayed per second."""
        return self.record.events / self.wall_s if self.wall_s > 0 else 0.0


def study(
    holes: Holes,
    trainers: Iterable[Trainer],
    costs: Costs,
    goal: Goal,
    foresight: Foresight,
    max_running: int,
    journal: Journal,
    stopwatch_s: Callable[[], float],
    progress: Callable[[float], None] = lambda at_s: None,
    poll_s: float = 0.0,
    logged: LoggedJobs | None = None,
    topology: Topology = FLAT,
    draw: PowerDraw = NO_DRAW,
) -> Study:
    """Replay a log, and compare it with a dedicated machine of as many node-hours.

    Idle is what was idle, also where polls that far apart do not see all of it. The log's jobs are only for who
    knows of plans.
    """
    start_s = stopwatch_s()
    seen = seen_by_polls(holes, poll_s)
    replay = Replay(
        seen,
        costs.apply(trainers),
        goal,
        foresight,
        max_running,
        journal,
        stopwatch_s,
        costs.as_published,
        logged,
        topology,
        draw,
    )
    record = replace(replay.run(progress), holes=holes)
    wall_s = stopwatch_s() - start_s
    return _measured(record, trainers, max_running, goal, wall_s)


def study_shapes(
    log: SiteLog,
    trainers: Iterable[Trainer],
    costs: Costs,
    rules: Rules,
    goal: Goal,
    stopwatch_s: Callable[[], float],
    progress: Callable[[float], None] = lambda at_s: None,
    topology: Topology = FLAT,
) -> Study:
    """What the holes allow trainers whose tasks differ in what they ask for of a node.

    They are dealt parts of nodes by the daemon's own rules at every instant at which something happens, without
    any time that looks, starts and ends take, and nobody knows of jobs before they start. All is counted in the
    tasks of those trainers that say nothing of their own.
    """
    assert log.places is not None
    start_s = stopwatch_s()
    fragments = replace(rules.fragments, longest_s=_AS_LONG_AS_THERE_S, planning_s=0.0)
    replay = DaemonReplay(
        log.holes,
        log.logged,
        costs.apply(trainers),
        replace(rules, nodes=rules.nodes.without_caution(), fragments=fragments),
        goal,
        AT_ONCE,
        NullJournal(),
        stopwatch_s,
        topology,
        log.places,
        as_ideal=True,
        as_published=costs.as_published,
    )
    record = replay.run(progress)
    return _measured(record, trainers, rules.sharing.max_running, goal, stopwatch_s() - start_s)


def replay_as_daemon(
    log: SiteLog,
    trainers: Iterable[Trainer],
    costs: Costs,
    how: DaemonSetup,
    stopwatch_s: Callable[[], float],
    progress: Callable[[float], None] = lambda at_s: None,
    topology: Topology = FLAT,
) -> DaemonReplayed:
    """Replay a log as the daemon would have gone, with what Slurm would have shown it.

    By rules that lend nodes in parts it goes about the places that the log has room for.
    """
    start_s = stopwatch_s()
    priced, places = costs.apply(trainers), log.places if how.rules.nodes.in_parts else None
    replay = DaemonReplay(
        log.holes,
        log.logged,
        priced,
        how.rules,
        how.goal,
        how.timing,
        NullJournal(),
        stopwatch_s,
        topology,
        places,
        as_published=costs.as_published,
    )
    return DaemonReplayed(replay.run(progress), stopwatch_s() - start_s)


def _measured(
    record: ReplayRecord, trainers: Iterable[Trainer], max_running: int, goal: Goal, wall_s: float
) -> Study:
    """A replay beside a dedicated machine of as many node-hours."""
    holes = record.holes
    dedicated = train_dedicated(
        trainers, holes.mean_idle_nodes, holes.from_s, holes.until_s, max_running, goal.objective
    )
    return Study(record, dedicated, outcome_of(record, dedicated), wall_s)


def study_as_daemon(how: DaemonSetup, replayed: DaemonReplayed, dedicated: DedicatedRecord) -> DaemonStudy:
    """The figures of a replay as the daemon would have gone."""
    record = replayed.record
    assert record.site_impact is not None
    outcome, site = outcome_of(record, dedicated), site_outcome_of(record.site_impact)
    return DaemonStudy(how, record, outcome, site, replayed.wall_s)
