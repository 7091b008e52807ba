from __future__ import annotations

import time
from dataclasses import replace
from itertools import islice

import pytest

from freetrain.config import Config
from freetrain.daemon.setup import rules_of
from freetrain.loop.cycle import Goal
from freetrain.policies import find_policy
from freetrain.replay.as_daemon.timing import Timing
from freetrain.replay.outcome import SiteOutcome
from freetrain.replay.presets import PRESETS
from freetrain.replay.report import ReportInput
from freetrain.replay.report.as_daemon import compared, price, promise
from freetrain.replay.report.page import render
from freetrain.replay.study import AsDaemon, Costs, DaemonStudy, study_as_daemon
from freetrain.slurm.settings import SlurmSettings

SLURM = SlurmSettings("site", "22.05", "preempt/partition_prio", "REQUEUE", 30.0, 60.0, "slurm")


@pytest.fixture(scope="module")
def done(report: ReportInput) -> DaemonStudy:
    goal = Goal.of(find_policy("freetrain"), "throughput")
    how = AsDaemon(rules_of(Config(), SLURM), goal, Timing())
    trainers = list(islice(PRESETS["mix"], 4))
    return study_as_daemon(report.log, trainers, Costs(), how, report.dedicated, time.perf_counter)


def test_the_page_shows_what_the_holes_allow_beside_what_the_daemon_gets(
    report: ReportInput, done: DaemonStudy
) -> None:
    assert "What the daemon would have got" not in render(report)
    page = render(replace(report, as_daemon=done))
    assert "What the daemon would have got" in page
    assert promise(done) in page
    for row in compared(report.outcome, done.outcome):
        assert f'<td class="n">{row.ideal}</td><td class="n">{row.daemon}</td>' in page


def test_the_promise_is_a_share_of_what_was_idle(done: DaemonStudy) -> None:
    half = replace(done, outcome=replace(done.outcome, idle_node_hours=8.0, lent_node_hours=4.0, u_dedicated=0.4))
    assert _plain(promise(half)) == (
        "The daemon would have lent 50 % of the idle node-hours and trained 40 % of what a machine of their own "
        "would have."
    )
    nothing = replace(done, outcome=replace(done.outcome, idle_node_hours=0.0, u_dedicated=None))
    assert promise(nothing) == "The daemon would have lent – of the idle node-hours."


def test_the_price_is_what_the_sites_jobs_feel() -> None:
    assert price(SiteOutcome(0, 0, 0.0, 0.0, 0.0)) == (
        "None of the site’s jobs started on a node that had been idle."
    )
    assert "4 jobs of the site that started on idle nodes, 0 would" in _plain(
        price(SiteOutcome(4, 0, 0.0, 0.0, 0.0))
    )
    said = _plain(price(SiteOutcome(4, 2, 6.0, 1.5, 4.0)))
    assert "2 would have waited for a fragment to leave, 4 seconds at most; that is 1.5 seconds for each" in said


def _plain(text: str) -> str:
    return text.replace("\N{NO-BREAK SPACE}", " ")
