"""A study: one log, one set of trainers, one way to decide, and the figures of the replay."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from freetrain.config import Prices
from freetrain.core.holes import Holes, seen_by_polls
from freetrain.core.power import NO_DRAW, PowerDraw
from freetrain.lending.rules import Rules
from freetrain.loop.cycle import Goal
from freetrain.replay.as_daemon.driver import DaemonReplay
from freetrain.replay.as_daemon.lent import Timing
from freetrain.replay.course import ReplayRecord, ReplaySetup
from freetrain.replay.driver import Replay
from freetrain.replay.estimate import DaemonEstimate
from freetrain.replay.foresight import Foresight
from freetrain.replay.logs import LoggedJobs, SiteLog
from freetrain.replay.outcome import ReplayOutcome, SiteOutcome, outcome_of, site_outcome_of
from freetrain.replay.worth import Worth, worth_of
from freetrain.replay.yardsticks import DedicatedRecord, train_dedicated

AT_ONCE = Timing(poll_s=3600.0, wakes=None, launch_s=0.0, boot_s=0.0, leave_s=0.0, evict_s=0.0)
# A time limit that no window reaches: what the holes allow ends with the hole and never before.
_AS_LONG_AS_THERE_S = 1e9


@dataclass(frozen=True, slots=True)
class DaemonSetup:
    """Rules, goal and timing of a daemon that is replayed."""

    rules: Rules
    goal: Goal
    timing: Timing


@dataclass(frozen=True, slots=True)
class DaemonStudy:
    """Study of a replay as the daemon would have gone: its figures, and those of the site's jobs."""

    how: DaemonSetup
    record: ReplayRecord
    outcome: ReplayOutcome
    site: SiteOutcome


@dataclass(frozen=True, slots=True)
class Study:
    """Study of a replay: its record and its figures.

    Attributes:
        dedicated: the same trainers on a machine of their own.
        as_daemon: study of a replay as the daemon would have gone; None: it was not asked.
        on_shares: study of the same trainers on places, on nodes with jobs and without; None: it was not asked.
        estimate: estimate of the daemon's figures, where only some hours were replayed; None: all were, or none.
    """

    record: ReplayRecord
    dedicated: DedicatedRecord
    outcome: ReplayOutcome
    as_daemon: DaemonStudy | None = None
    on_shares: Study | None = None
    estimate: DaemonEstimate | None = None

    @property
    def shown(self) -> Study | DaemonStudy:
        """The replay that is shown: the daemon's, or, where that was not asked, what holes allow."""
        return self.as_daemon or self

    def worth(self, prices: Prices) -> Worth:
        """Worth of the shown replay at these prices."""
        outcome = self.shown.outcome
        return worth_of(outcome.lent_node_hours, outcome.useful_node_hours, prices, outcome.lent_watts)

    @property
    def has_own_tasks(self) -> bool:
        """Whether a trainer says itself what its tasks ask for."""
        return any(run.trainer.task for run in self.record.runs)

    @property
    def events_per_s(self) -> float:
        """Events replayed per second."""
        return self.record.events / self.record.wall_s if self.record.wall_s > 0 else 0.0


def study(
    holes: Holes,
    setup: ReplaySetup,
    foresight: Foresight,
    max_running: int,
    progress: Callable[[float], None] = lambda at_s: None,
    poll_s: float = 0.0,
    logged: LoggedJobs | None = None,
    draw: PowerDraw = NO_DRAW,
) -> Study:
    """Replay a log, and compare it with a dedicated machine of as many node-hours.

    Idle is what was idle, also where polls that far apart do not see all of it. The log's jobs are only for who
    knows of plans.
    """
    start_s = setup.stopwatch_s()
    replay = Replay(seen_by_polls(holes, poll_s), setup, foresight, max_running, logged, draw)
    record = replay.run(progress)
    return _measured(replace(record, holes=holes, wall_s=setup.stopwatch_s() - start_s), setup, max_running)


def study_shapes(
    log: SiteLog, setup: ReplaySetup, rules: Rules, progress: Callable[[float], None] = lambda at_s: None
) -> Study:
    """Study of what the holes allow trainers whose tasks differ in what they ask for of a node.

    They are dealt parts of nodes by the daemon's own rules at every instant at which something happens, without
    any time that looks, starts and ends take, and nobody knows of jobs before they start. All is counted in the
    tasks of those trainers that say nothing of their own.
    """
    assert log.places is not None
    start_s = setup.stopwatch_s()
    fragments = replace(rules.fragments, longest_s=_AS_LONG_AS_THERE_S, planning_s=0.0)
    at_once = replace(rules, nodes=rules.nodes.without_caution(), fragments=fragments)
    replay = DaemonReplay(log.holes, log.logged, setup, at_once, AT_ONCE, log.places, as_ideal=True)
    record = replay.run(progress)
    return _measured(replace(record, wall_s=setup.stopwatch_s() - start_s), setup, rules.sharing.max_running)


def replay_as_daemon(
    log: SiteLog, setup: ReplaySetup, how: DaemonSetup, progress: Callable[[float], None] = lambda at_s: None
) -> ReplayRecord:
    """Replay a log as the daemon would have gone, by its own goal, with what Slurm would have shown it.

    By rules that lend nodes in parts it goes about the places that the log has room for.
    """
    start_s = setup.stopwatch_s()
    setup, places = replace(setup, goal=how.goal), log.places if how.rules.nodes.in_parts else None
    replay = DaemonReplay(log.holes, log.logged, setup, how.rules, how.timing, places)
    record = replay.run(progress)
    return replace(record, wall_s=setup.stopwatch_s() - start_s)


def _measured(record: ReplayRecord, setup: ReplaySetup, max_running: int) -> Study:
    """A replay beside a dedicated machine of as many node-hours."""
    holes, objective = record.holes, setup.goal.objective
    nodes = holes.mean_idle_nodes
    dedicated = train_dedicated(setup.trainers, nodes, holes.from_s, holes.until_s, max_running, objective)
    return Study(record, dedicated, outcome_of(record, dedicated))


def study_as_daemon(how: DaemonSetup, record: ReplayRecord, dedicated: DedicatedRecord) -> DaemonStudy:
    """The figures of a replay as the daemon would have gone."""
    assert record.site_impact is not None
    return DaemonStudy(how, record, outcome_of(record, dedicated), site_outcome_of(record.site_impact))
