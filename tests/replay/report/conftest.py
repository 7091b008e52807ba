"""One small replay that all tests of the report share, and ways to make others."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import replace
from itertools import count, islice

import numpy as np
import pytest

from freetrain.config import Config
from freetrain.core.holes import Holes, sorted_holes
from freetrain.core.trainer import Trainer
from freetrain.daemon.rules import rules_of
from freetrain.loop.cycle import Goal
from freetrain.policies import find_policy
from freetrain.replay.as_daemon.lent import Timing
from freetrain.replay.course import ReplayRecord, ReplaySetup
from freetrain.replay.driver import Replay
from freetrain.replay.foresight import Foresight
from freetrain.replay.logs.model import RejectedRow, RowCount, SiteLog
from freetrain.replay.outcome import outcome_of
from freetrain.replay.report import ReplaySetting, ReportInput
from freetrain.replay.study import DaemonSetup, Study, replay_as_daemon, study_as_daemon
from freetrain.replay.trainers import CURVES, PRESETS
from freetrain.replay.yardsticks import train_dedicated
from freetrain.slurm.settings import SlurmSettings

FROM_S = 1_700_000_000.0
HOUR_S = 3600.0
SETTING = ReplaySetting("freetrain", "throughput", 600.0, 0.0, "preset:mix", 4)
SLURM = SlurmSettings("site", "22.05", "preempt/partition_prio", "REQUEUE", 30.0, 60.0, "slurm")


def make_holes(rows: Iterable[tuple[int, float, float]], nodes: int, duration_s: float) -> Holes:
    """Holes from (node, start, end), seconds since the window's start."""
    node, start_s, end_s = zip(*rows, strict=True) if (rows := list(rows)) else ((), (), ())
    names = tuple(f"n{number:03d}" for number in range(nodes))
    start, end = FROM_S + np.array(start_s, float), FROM_S + np.array(end_s, float)
    return sorted_holes(names, np.array(node, np.int32), start, end, FROM_S, FROM_S + duration_s)


def make_record(holes: Holes, trainers: Iterable[Trainer], max_running: int = 4) -> ReplayRecord:
    """Replay FreeTrain's own policy over holes."""
    goal = Goal.of(find_policy("freetrain"), "throughput")
    ticks = count()
    setup = ReplaySetup(trainers, goal, lambda: 0.001 * next(ticks))
    return Replay(holes, setup, Foresight(600.0), max_running).run()


def make_input(holes: Holes, trainers: Iterable[Trainer], title: str = "a machine") -> ReportInput:
    """A replay with everything that its report is made of."""
    record = make_record(holes, trainers)
    nodes = holes.mean_idle_nodes
    dedicated = train_dedicated(trainers, nodes, holes.from_s, holes.until_s, 4, "throughput")
    rejected = (RejectedRow("jobs.psv", 7, "the end is before the start"),)
    rows = RowCount(120, 100, {"did not run": 19}, 1, rejected)
    log = SiteLog(holes, rows, "sacct", False, ("Nothing was assumed.",), 100)
    study = Study(record, dedicated, outcome_of(record, dedicated))
    return ReportInput(title, log, study, SETTING, "0.1.0", "freetrain replay jobs.psv")


def with_daemon(report: ReportInput) -> ReportInput:
    """The same report, and what the daemon would have got."""
    how = DaemonSetup(rules_of(Config(), SLURM), Goal.of(find_policy("freetrain"), "throughput"), Timing())
    trainers = list(islice(PRESETS["mix"], 4))
    replayed = replay_as_daemon(report.log, ReplaySetup(trainers, how.goal, time.perf_counter), how)
    done = study_as_daemon(how, replayed, report.study.dedicated)
    return replace(report, study=replace(report.study, as_daemon=done))


@pytest.fixture(scope="session")
def holes() -> Holes:
    """Twelve nodes over a day, idle in turns for 20 s to 5 hours."""
    lengths_s = (20, 90, 400, 1200, 2400, 5400, 18000)
    rows = [
        (node, start_s + 311.0 * node, start_s + 311.0 * node + lengths_s[(node + number) % len(lengths_s)])
        for node in range(12)
        for number, start_s in enumerate((0.0, 6 * HOUR_S, 12 * HOUR_S, 18 * HOUR_S))
    ]
    return make_holes(rows, 14, 24 * HOUR_S)


@pytest.fixture(scope="session")
def trainers() -> tuple[Trainer, ...]:
    """Mixed trainers, the first with a name that is markup and can complete."""
    mixed = [trainer for trainer, _ in zip(PRESETS["mix"], range(8), strict=False)]
    return (Trainer("<b>x", CURVES["ResNet18"], target_samples=5e7), *(replace(t, id=f"{t.id}&") for t in mixed))


@pytest.fixture(scope="session")
def report(holes: Holes, trainers: tuple[Trainer, ...]) -> ReportInput:
    """The shared replay with its figures."""
    return make_input(holes, trainers)


@pytest.fixture(scope="session")
def record(report: ReportInput) -> ReplayRecord:
    """The shared replay."""
    return report.study.record


@pytest.fixture(scope="session")
def daemon_report(report: ReportInput) -> ReportInput:
    """The shared replay, and what the daemon would have got."""
    return with_daemon(report)
