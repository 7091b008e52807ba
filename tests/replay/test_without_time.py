"""The daemon's own loop, where nothing takes any time, comes to what the holes allow.

    WITHOUT_TIME_UNTIL=2024-06-06T00:00 pytest tests/replay/test_without_time.py

compares three days.
"""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path

import pytest

from freetrain.config import Config
from freetrain.core.decision import Placement, place
from freetrain.core.problem import Counts, Problem
from freetrain.daemon.rules import rules_of
from freetrain.loop.cycle import Goal
from freetrain.policies import find_policy
from freetrain.replay.as_daemon.driver import DaemonReplay
from freetrain.replay.course import Costs, ReplayRecord, ReplaySetup
from freetrain.replay.driver import Replay
from freetrain.replay.foresight import Foresight
from freetrain.replay.logs import ReadOptions, SiteLog, parse_log_time, read_site_log
from freetrain.replay.study import AT_ONCE
from freetrain.replay.trainers import PRESETS
from freetrain.slurm.settings import SlurmSettings

SMALL = Path(__file__).parents[2] / "sample_logs" / "small-cluster.sacct.gz"
SLURM = SlurmSettings("", "", "preempt/partition_prio", "REQUEUE", 30.0, 60.0, "slurm")
UNTIL = os.environ.get("WITHOUT_TIME_UNTIL", "2024-06-03T16:00")


class ByName:
    """Takes the first nodes by name: each replay lists nodes that nobody tells apart in an order of its own."""

    def place(self, problem: Problem, counts: Counts) -> Placement:
        return place(replace(problem, nodes=tuple(sorted(problem.nodes, key=lambda node: node.name))), counts)


GOAL = Goal.of(find_policy("freetrain"), "speedup", ByName())
SETUP = ReplaySetup(PRESETS["mix"], GOAL, time.perf_counter, Costs(60.0, 60.0, 360.0, 60.0))


def as_a_daemon_without_time(log: SiteLog) -> ReplayRecord:
    rules = rules_of(Config(), SLURM)
    rules = replace(
        rules,
        nodes=rules.nodes.without_caution(),
        fragments=replace(rules.fragments, longest_s=1e9, planning_s=0.0),
        sharing=replace(rules.sharing, max_running=20),
        objective="speedup",
        horizon_s=0.0,
    )
    return DaemonReplay(log.holes, log.logged, SETUP, rules, AT_ONCE, as_ideal=True).run()


def test_both_replays_come_to_the_same_where_nothing_takes_time() -> None:
    log = read_site_log([SMALL], ReadOptions(until_s=parse_log_time(UNTIL, "UTC")))
    allowed, daemon = Replay(log.holes, SETUP, Foresight(), 20).run(), as_a_daemon_without_time(log)
    assert [run.trainer.id for run in daemon.runs] == [run.trainer.id for run in allowed.runs]
    assert [run.samples for run in daemon.runs] == pytest.approx([run.samples for run in allowed.runs])
    assert [run.lost_s for run in daemon.runs] == [pytest.approx(run.lost_s) for run in allowed.runs]
