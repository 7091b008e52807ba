"""The report's tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import islice

import numpy as np
import polars as pl
import pytest

from freetrain.core.amounts import Amount
from freetrain.core.place import Lease, new_place
from freetrain.core.trainer import Trainer
from freetrain.loop.cycle import Goal
from freetrain.policies import find_policy
from freetrain.replay.as_daemon.lent import Timing
from freetrain.replay.course import ReplayRecord, SiteImpact
from freetrain.replay.foresight import FARTHEST_S, Calibration, ForecastError, ForecastScore
from freetrain.replay.logs.model import (
    IdlePart,
    IdleShares,
    LoggedJobs,
    SiteLog,
    TaskPlaces,
    TaskRequest,
)
from freetrain.replay.outcome import SiteOutcome, site_outcome_of
from freetrain.replay.report import ReportInput
from freetrain.replay.report.page import render
from freetrain.replay.report.sentences import about_site
from freetrain.replay.report.tables import (
    GroupRow,
    daemon_beside_holes,
    forecast_tables,
    group_tables,
    shown_shares,
    trainer_kinds,
    trainer_rows,
)
from freetrain.replay.study import DaemonSetup, DaemonStudy, Study
from freetrain.replay.trainers import PRESETS
from tests.replay.as_daemon.test_driver import rules
from tests.replay.report.conftest import FROM_S, make_holes, make_input, make_record


def test_the_page_shows_what_the_daemon_gets_beside_what_the_holes_allow(
    report: ReportInput, daemon_report: ReportInput
) -> None:
    assert "the daemon gets" not in render(report)
    page = render(daemon_report)
    daemon = daemon_report.study.as_daemon
    assert daemon is not None
    for _, gets, allowed in daemon_beside_holes(daemon.outcome, daemon_report.study.outcome):
        assert f'<td class="n">{gets}</td><td class="n">{allowed}</td>' in page


def test_the_sentence_about_the_site_tells_how_many_jobs_of_the_site_meet_fragments() -> None:
    assert about_site(SiteOutcome(0, 0, 0.0, 0.0, 0.0)) == (
        "None of the site’s jobs started on a node that had been idle."
    )
    assert "4 jobs of the site that started on idle nodes, 0 would" in _plain(
        about_site(SiteOutcome(4, 0, 0.0, 0.0, 0.0))
    )
    said = _plain(about_site(SiteOutcome(4, 2, 6.0, 1.5, 4.0)))
    assert "2 would have found a fragment on some of them. How much later these would start" in said
    assert "1.5" not in said, "the seconds that a replay takes for granted are no result"


def _plain(text: str) -> str:
    return text.replace("\N{NO-BREAK SPACE}", " ")


def logged(*jobs: tuple[str, list[int]]) -> LoggedJobs:
    start_s = np.full(len(jobs), FROM_S)
    names = sorted({partition for partition, _ in jobs})
    return LoggedJobs(
        ids=pl.Series([str(number) for number in range(len(jobs))]),
        partition_names=tuple(names),
        partition=np.array([names.index(partition) for partition, _ in jobs], np.int32),
        submit_s=start_s, start_s=start_s, end_s=start_s + 60, limit_s=start_s * 0 + 60,
        begin=np.cumsum([0, *(len(nodes) for _, nodes in jobs)]),
        node=np.array([node for _, nodes in jobs for node in nodes], np.int32),
    )  # fmt: skip


@pytest.fixture
def log(report: ReportInput) -> SiteLog:
    holes = make_holes([(0, 0, 3600), (1, 0, 1800), (2, 1800, 3600)], 4, 3600)
    return replace(report.log, holes=holes)


def of_kinds(log: SiteLog, kinds: Mapping[str, tuple[str, ...]]) -> SiteLog:
    kind_of = {name: kind for kind, names in kinds.items() for name in names}
    return replace(log, holes=replace(log.holes, kind_of=kind_of))


def by_kind(log: SiteLog) -> tuple[GroupRow, ...]:
    return dict(group_tables(log))["kind of node"]


def by_partition(log: SiteLog) -> tuple[GroupRow, ...]:
    return dict(group_tables(log))["partition"]


def test_idle_time_is_told_by_kind_of_node(log: SiteLog) -> None:
    rows = by_kind(of_kinds(log, {"thin": ("n001", "n002", "n003"), "gpu": ("n000",)}))
    assert [(row.name, row.nodes, row.idle_node_hours, row.median_s) for row in rows] == [
        ("gpu", 1, 1.0, 3600.0),
        ("thin", 3, 1.0, 1800.0),
    ]
    assert rows[1].idle_share == pytest.approx(1 / 3)


def test_idle_time_is_told_by_partition_which_may_share_nodes(log: SiteLog) -> None:
    rows = by_partition(replace(log, logged=logged(("batch", [0, 1]), ("batch", [1, 2]), ("debug", [2, 3]))))
    assert [(row.name, row.nodes, row.idle_node_hours) for row in rows] == [("batch", 3, 2.0), ("debug", 2, 0.5)]


def test_one_group_is_no_table(log: SiteLog) -> None:
    assert by_kind(of_kinds(log, {"all": log.holes.node_names})) == ()
    assert by_partition(replace(log, logged=logged(("batch", [0])))) == ()
    assert by_partition(replace(log, logged=None)) == ()


def test_nodes_that_are_not_looked_at_do_not_count(log: SiteLog) -> None:
    known = of_kinds(log, {"thin": ("n000", "elsewhere"), "gpu": ("n001",), "old": ("gone",)})
    assert [(row.name, row.nodes) for row in by_kind(known)] == [("thin", 1), ("gpu", 1)]


def test_the_page_has_the_tables(report: ReportInput) -> None:
    log = replace(report.log, logged=logged(("batch", [0, 1]), ("<debug>", [2, 3])))
    page = render(replace(report, log=log))
    assert "Idle time by partition" in page
    assert "&lt;debug&gt;" in page
    assert "Idle time by kind of node" not in page


ROWS = [(node, 0.0, 3600.0) for node in range(40)]


def test_trainers_that_are_alike_share_a_line() -> None:
    record = make_record(make_holes(ROWS, 40, 3600), tuple(islice(PRESETS["mix"], 30)), max_running=30)
    rows = trainer_kinds(record.runs)
    assert {row.name for row in rows} == {trainer.id.rpartition("-")[0] for trainer in islice(PRESETS["mix"], 7)}
    assert sum(len(row.runs) for row in rows) == 30
    assert sum(run.samples for row in rows for run in row.runs) == sum(run.samples for run in record.runs)


def test_few_trainers_have_a_line_each() -> None:
    assert trainer_kinds(make_record(make_holes(ROWS, 40, 3600), tuple(islice(PRESETS["mix"], 9))).runs) == ()


def test_trainers_that_all_differ_are_no_kinds() -> None:
    many = tuple(Trainer(f"t{number}", ((1, 1.0 + number),)) for number in range(30))
    assert trainer_kinds(make_record(make_holes(ROWS, 40, 3600), many, max_running=30).runs) == ()


def test_names_without_anything_in_common_are_cut_short() -> None:
    many = tuple(Trainer(f"{number}-x", ((1, 1.0),)) for number in range(30))
    runs = make_record(make_holes(ROWS, 40, 3600), many, max_running=30).runs
    assert [row.name for row in trainer_kinds(runs)] == ["0-x …"]


def test_the_page_shows_kinds_instead_of_many_lines_that_are_alike() -> None:
    trainers = tuple(Trainer(f"hpo-{number:02d}", ((1, 1.0),), target_samples=300) for number in range(30))
    page = render(make_input(make_holes(ROWS, 40, 3600), trainers))
    assert "hpo-07" not in page
    assert '<th scope="row">hpo</th><td class="n">30</td><td class="n">30</td>' in page


SCORE = ForecastScore(
    calibration=(
        Calibration(300.0, 40, 0.95, 1.0),
        Calibration(1200.0, 80, 0.93, 0.5),
        Calibration(3600.0, 30, 0.1, 0.0),
        Calibration(3600.0, 29, 0.95, 0.0),
        Calibration(3600.0, 14, 0.55, 0.0),
    ),
    learned=(ForecastError(3600.0, 9, 1800.0, 1500.0, 600.0),),
    planned=(ForecastError(None, 1, 20_000.0, 100.0, 19_900.0),),
)


def test_what_was_said_alike_stands_in_one_line_and_what_was_hardly_said_is_left_open() -> None:
    tables = forecast_tables(SCORE)
    assert tables is not None
    assert [row[0] for row in tables.calibration] == ["90 to 100 %", "10 to 20 %"]
    assert [[cell.replace("\N{NO-BREAK SPACE}", " ") for cell in row[1:]] for row in tables.calibration] == [
        ["100 %", "50.0 %", "–"],
        ["–", "–", "0 %"],
    ]
    assert [(row[0].split(",")[0], row[-1]) for row in tables.errors] == [("learned", "9"), ("planned", "1")]


def test_forecasts_of_one_kind_have_a_line_for_each_length() -> None:
    learned = tuple(ForecastError(up_to_s, 9, 200.0, 150.0, 60.0) for up_to_s in FARTHEST_S[:-1])
    longest = ForecastError(None, 1, 20_000.0, 100.0, 19_900.0)
    tables = forecast_tables(replace(SCORE, learned=(*learned, longest), planned=learned[:1]))
    assert tables is not None
    assert [row[0].replace("\N{NO-BREAK SPACE}", " ") for row in tables.errors] == [
        "learned, up to 5 min",
        "learned, 5 min to 20 min",
        "learned, 20 min to 60 min",
        "learned, 60 min to 4 h",
        "learned, over 4 h",
        "planned, up to 5 min",
    ]


def test_where_nothing_was_forecast_there_is_nothing_to_show() -> None:
    assert forecast_tables(ForecastScore()) is None
    assert forecast_tables(replace(SCORE, calibration=SCORE.calibration[3:])) is None


def test_the_page_says_how_well_idle_time_could_be_forecast(report: ReportInput) -> None:
    page = render(report)
    assert "How well idle time could be forecast" in page
    assert '<th scope="row">learned, 60\N{NO-BREAK SPACE}min to 4\N{NO-BREAK SPACE}h</th>' in page


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
    return DaemonStudy(how, ideal.record, ideal.outcome, site_outcome_of(SiteImpact(4, (8.0,), 3600.0)))


def test_the_page_tells_what_would_have_fit_and_was_lent_where_it_was_asked(report: ReportInput) -> None:
    shared = with_shares(report, 2.0)
    log, nodes = shared.log, len(shared.log.holes.node_names)
    task = TaskRequest(Amount(4, 16 * 1024, (("gpu", 1),)), shortest_s=120.0)
    beside = np.full(nodes, 2 * 3600.0)
    names = tuple(new_place(name, 1) for name in log.holes.node_names)
    holes = replace(log.holes, node_names=names, in_parts=True)
    places = TaskPlaces(task, holes, np.arange(nodes, dtype=np.int32), beside, beside * 3, np.ones((nodes, 3)))
    lent = (Lease(names[0], report.study.record.runs[0].trainer.id, 0.0, 3600.0),)
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


def test_trainers_are_ranked_by_their_samples_with_their_places_in_the_order_of_admission(
    record: ReplayRecord,
) -> None:
    rows = trainer_rows(record.runs)
    samples = [run.samples for _, run in rows]
    assert samples == sorted(samples, reverse=True)
    assert all(record.runs[rank] is run for rank, run in rows)
    assert len(rows) == len(record.runs)
    run = next(run for _, run in rows if run.trainer.id == "<b>x")
    assert run.done == 1
    assert run.started_s is not None
    assert run.completed_s is not None
    assert run.started_s < run.completed_s
