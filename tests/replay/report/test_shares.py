from __future__ import annotations

from dataclasses import replace

import numpy as np

from freetrain.core.amounts import Amount
from freetrain.core.fragment import new_place
from freetrain.loop.cycle import Goal
from freetrain.policies import find_policy
from freetrain.replay.as_daemon.timing import Timing
from freetrain.replay.course import SiteImpact
from freetrain.replay.logs.model import IdlePart, IdleShares, TaskPlaces, TaskRequest
from freetrain.replay.outcome import site_outcome_of
from freetrain.replay.report import ReportInput
from freetrain.replay.report.page import render
from freetrain.replay.report.tables import shown_shares
from freetrain.replay.study import DaemonSetup, DaemonStudy, Study
from freetrain.replay.trainer_run import PlaceLease
from tests.replay.as_daemon.test_driver import rules


def with_shares(report: ReportInput, partly_used_h: float) -> ReportInput:
    names = report.log.holes.node_names
    every = np.ones(len(names))

    def part(size: float, idle_h: float) -> IdlePart:
        return IdlePart(every * size, every * idle_h * 3600, every * 0, True)

    types = ("a100",) * 4 + ("<v100>",) * (len(names) - 4)
    shares = IdleShares(names, every * partly_used_h * 3600, part(64, 100), None, part(4, 3), types, 0.0)
    return replace(report, log=replace(report.log, shares=shares))


def test_the_page_tells_what_lay_idle_on_used_nodes(report: ReportInput) -> None:
    page = render(with_shares(report, 2.0)).replace("\N{NO-BREAK SPACE}", " ")
    assert "In 28 node-hours nodes had jobs and an idle CPU beside them" in page
    assert "1,400 CPU-hours and 42 GPU-hours lay idle there" in page
    assert '<th scope="row">GPU a100</th><td class="n">4</td><td class="n">8' in page
    assert "GPU &lt;v100&gt;" in page


def daemon_study(ideal: Study) -> DaemonStudy:
    how = DaemonSetup(rules(), Goal.of(find_policy("greedy"), "throughput"), Timing())
    return DaemonStudy(how, ideal.record, ideal.outcome, site_outcome_of(SiteImpact(4, (8.0,), 3600.0)), 1.0)


def test_the_page_tells_what_would_have_fit_and_was_lent_where_it_was_asked(report: ReportInput) -> None:
    shared = with_shares(report, 2.0)
    log, nodes = shared.log, len(shared.log.holes.node_names)
    task = TaskRequest(Amount(4, 16 * 1024, (("gpu", 1),)), shortest_s=120.0)
    beside = np.full(nodes, 2 * 3600.0)
    names = tuple(new_place(name, 1) for name in log.holes.node_names)
    holes = replace(log.holes, node_names=names, in_parts=True)
    places = TaskPlaces(task, holes, np.arange(nodes, dtype=np.int32), beside, beside * 3, np.ones((nodes, 3)))
    lent = (PlaceLease(names[0], report.study.record.runs[0].trainer.id, 0.0, 3600.0),)
    on_shares = replace(report.study, record=replace(report.study.record, leases=lent), as_daemon=None)
    played = replace(shared, log=replace(log, places=places), study=replace(report.study, on_shares=on_shares))
    page = render(played).replace("\N{NO-BREAK SPACE}", " ")
    assert "Tasks of 1 GPU, 4 CPUs, 16 GiB would have fit beside the jobs for 28 task-hours, 28 GPU-hours" in page
    assert "on nodes without jobs for 84 task-hours" in page
    assert "task-hours that would have fit</th>" in page
    assert '<th class="n">of them lent</th>' in page
    assert "Of these the holes allow 1 task-hour beside jobs" in page
    assert "task-hours that would have fit" not in render(shared)
    as_daemon = replace(on_shares, as_daemon=daemon_study(on_shares))
    told = render(replace(played, study=replace(report.study, on_shares=as_daemon))).replace(
        "\N{NO-BREAK SPACE}", " "
    )
    assert "Of these the daemon would have lent 1 task-hour beside jobs" in told
    assert "1 of 4 jobs that started waited for what was lent, on average over all of them 2.0 s" in told


def test_where_no_node_was_partly_used_there_is_no_table(report: ReportInput) -> None:
    assert shown_shares(report.log) is None
    assert shown_shares(with_shares(report, 0.0).log) is None
