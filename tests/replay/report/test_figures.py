from __future__ import annotations

import numpy as np
import pytest

from freetrain.core.holes import Holes
from freetrain.replay.course import ReplayRecord
from freetrain.replay.report import ReportInput
from freetrain.replay.report.series import (
    bin_means,
    hole_lengths,
    nodes_over_time,
    samples_over_time,
    trainer_rows,
)
from tests.replay.report.conftest import make_holes, make_record


def test_bin_means_are_averages_over_time() -> None:
    means = bin_means([1.0, 3.0], [4.0, 0.0], np.array([0.0, 2.0, 4.0]))
    assert means.tolist() == [2.0, 2.0]


def test_bin_means_count_steps_outside_the_bins() -> None:
    assert bin_means([-5.0, 9.0], [3.0, 7.0], np.array([0.0, 1.0, 2.0])).tolist() == [3.0, 3.0]


def test_bin_means_of_nothing_are_zero() -> None:
    assert bin_means([], [], np.array([0.0, 1.0])).tolist() == [0.0]


@pytest.mark.parametrize("bins", [1, 7, 600])
def test_areas_are_node_hours(report: ReportInput, holes: Holes, bins: int) -> None:
    series = nodes_over_time(holes, report.study.record.timeline, bins)
    hours = np.diff(series.edges_s) / 3600
    assert len(series.idle_nodes) == bins
    assert series.idle_nodes @ hours == pytest.approx(report.study.outcome.idle_node_hours)
    assert series.lent_nodes @ hours == pytest.approx(report.study.outcome.lent_node_hours)
    assert (series.lent_nodes <= series.idle_nodes + 1e-6).all()


def test_samples_grow_from_nothing_to_the_total(report: ReportInput) -> None:
    series = samples_over_time(report.study)
    assert len(series.at_s) == 601
    assert (series.allowed[0], series.dedicated[0], series.daemon) == (0, 0, None)
    assert series.allowed[-1] == pytest.approx(report.study.outcome.samples)
    assert series.dedicated[-1] == pytest.approx(report.study.dedicated.samples)
    assert (np.diff(series.dedicated) >= -1e-3).all()


def test_samples_as_the_daemon_stand_beside_those_that_the_holes_allow(daemon_report: ReportInput) -> None:
    series, daemon = samples_over_time(daemon_report.study), daemon_report.study.as_daemon
    assert daemon is not None
    assert series.daemon is not None
    assert series.daemon[-1] == pytest.approx(daemon.outcome.samples)
    assert 0 < series.daemon[-1] < series.allowed[-1]


def test_hole_lengths_add_up(holes: Holes) -> None:
    lengths = hole_lengths(holes)
    assert lengths.holes.sum() == len(holes)
    assert lengths.node_hours.sum() == pytest.approx(holes.idle_node_hours)
    assert lengths.labels == (
        "10 s – 1 min",
        "1 – 3 min",
        "3 – 10 min",
        "10 – 30 min",
        "30 min – 1 h",
        "1 – 3 h",
        "3 – 6 h",
    )


def test_hole_lengths_at_the_ends_of_the_scale() -> None:
    day_s = 86400.0
    lengths = hole_lengths(make_holes([(0, 0, 5), (1, 0, 10), (2, 0, 40 * day_s)], 3, 90 * day_s))
    assert (lengths.labels[0], lengths.labels[1], lengths.labels[-1]) == (
        "under 10 s",
        "10 s – 1 min",
        "over 28 days",
    )
    assert lengths.holes.tolist() == [1, 1, *[0] * 11, 1]
    assert lengths.node_hours[-1] == pytest.approx(960)


def test_no_hole_has_no_length() -> None:
    assert hole_lengths(make_holes([], 2, 600)).labels == ()


def test_trainer_rows_are_ranked_and_cut(record: ReplayRecord) -> None:
    rows = trainer_rows(record.runs)
    samples = [row.samples for row in rows]
    assert samples == sorted(samples, reverse=True)
    assert {row.id for row in rows} == {run.trainer.id for run in record.runs}
    assert [record.runs[row.rank].trainer.id for row in rows] == [row.id for row in rows]
    assert trainer_rows(record.runs, most=2) == rows[:2]


def test_trainer_rows_tell_what_happened(record: ReplayRecord) -> None:
    row = next(row for row in trainer_rows(record.runs) if row.id == "<b>x")
    assert row.done == 1
    assert row.started_s is not None
    assert row.completed_s is not None
    assert row.started_s < row.completed_s
    assert sum(row.evictions for row in trainer_rows(record.runs)) == sum(run.evicted_nodes for run in record.runs)


def test_replay_that_ends_early_lends_nothing_afterwards(holes: Holes) -> None:
    series = nodes_over_time(holes, make_record(holes, ()).timeline)
    assert series.lent_nodes.sum() == 0
