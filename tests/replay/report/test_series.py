"""What the report's pictures show."""

from __future__ import annotations

from datetime import UTC
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from freetrain.core.holes import Holes
from freetrain.core.trainer import Trainer
from freetrain.replay.course import ReplayRecord
from freetrain.replay.report import ReportInput
from freetrain.replay.report.series import (
    BUSY,
    FIRST_COLOUR,
    IDLE,
    about_weeks,
    bin_means,
    find_rhythm,
    find_weeks,
    hole_lengths,
    node_grid,
    nodes_over_time,
    samples_over_time,
)
from freetrain.replay.trainers import CURVES
from tests.replay.report.conftest import FROM_S, make_holes, make_record


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


def test_replay_that_ends_early_lends_nothing_afterwards(holes: Holes) -> None:
    series = nodes_over_time(holes, make_record(holes, ()).timeline)
    assert series.lent_nodes.sum() == 0


def test_states_are_those_of_each_instant() -> None:
    holes = make_holes([(0, 100, 300), (1, 0, 1000), (2, 500, 800)], 3, 1000)
    trainer = Trainer("only", ((1, 10.0),), submitted_s=holes.from_s + 400)
    grid = node_grid(make_record(holes, (trainer,)), 10, 12)
    assert grid.nodes == ("n000", "n001", "n002")
    assert grid.states.tolist() == [
        [BUSY, IDLE, IDLE, *[BUSY] * 7],
        [*[IDLE] * 4, *[FIRST_COLOUR] * 6],
        [*[BUSY] * 5, *[IDLE] * 3, BUSY, BUSY],
    ]


def test_a_column_shows_what_covers_most_of_it() -> None:
    holes = make_holes([(0, 20, 80), (1, 0, 10), (1, 40, 50), (1, 70, 80)], 2, 100)
    assert node_grid(make_record(holes, ()), 1, 12).states.tolist() == [[IDLE], [BUSY]]


def test_grid_covers_about_as_much_as_the_stays(record: ReplayRecord) -> None:
    grid = node_grid(record, 5000, 12)
    lent_h = sum(lease.until_s - lease.from_s for lease in record.timeline.leases.all) / 3600
    column_h = record.holes.duration_s / 5000 / 3600
    assert abs((grid.states >= FIRST_COLOUR).sum() * column_h / lent_h - 1) < 0.02


def test_colours_come_round_again() -> None:
    holes = make_holes([(node, 0, 1000) for node in range(3)], 3, 1000)
    trainers = tuple(Trainer(f"t{number}", CURVES["AlexNet"], max_nodes=1) for number in range(3))
    grid = node_grid(make_record(holes, trainers), 4, 2)
    assert np.bincount(grid.states.ravel()).tolist() == [0, 0, 8, 4]


def test_no_pictured_node_makes_an_empty_grid() -> None:
    assert node_grid(make_record(make_holes([], 2, 600), ()), 10, 12).states.shape == (0, 10)


HOUR_S, DAY_S = 3600.0, 86_400.0
# The window begins on Tuesday, 2023-11-14 at 22:13:20.
MONDAY_S = 1_700_438_400.0 - FROM_S  # 2023-11-20
DAYS = 28


@pytest.fixture(scope="module")
def nights() -> Holes:
    """Two nodes that are idle every day from 00:00 to 06:00, on Sundays all day."""
    rows = [
        (node, MONDAY_S + day * DAY_S, MONDAY_S + day * DAY_S + (24 if day % 7 == 6 else 6) * HOUR_S)
        for day in range(DAYS - 8)
        for node in range(2)
    ]
    return make_holes(rows, 2, DAYS * DAY_S)


def test_nodes_are_counted_by_the_clocks_of_the_site(nights: Holes) -> None:
    timeline = make_record(nights, ()).timeline
    rhythm = find_rhythm(nights, timeline, UTC)
    east = find_rhythm(nights, timeline, ZoneInfo("Asia/Tokyo"))
    assert rhythm is not None
    assert east is not None
    assert rhythm.idle_by_hour[3] > 1.3 > 0.3 > rhythm.idle_by_hour[12]
    assert east.idle_by_hour[12] == pytest.approx(rhythm.idle_by_hour[3])
    assert rhythm.idle_by_day.argmax() == 6
    assert (rhythm.lent_by_hour == 0).all()


def test_weeks_are_whole_ones_and_their_range_is_said(nights: Holes) -> None:
    weeks = find_weeks(nights, make_record(nights, ()).timeline, UTC)
    assert list(map(str, weeks["monday"])) == ["2023-11-20", "2023-11-27", "2023-12-04"]
    assert weeks["idle_h"].to_list() == pytest.approx([120.0, 120.0, 72.0])
    said = about_weeks(weeks).replace("\N{NO-BREAK SPACE}", " ")
    assert said.startswith("Of the 3 whole weeks, that of 2023-12-04 had the least idle node-hours (72)")
    assert "0 % to 0 % of them were lent" in said
    assert about_weeks(weeks[:1]) == ""


def test_a_few_days_have_no_rhythm() -> None:
    holes = make_holes([(0, 0, DAY_S)], 1, 3 * DAY_S)
    timeline = make_record(holes, ()).timeline
    assert find_rhythm(holes, timeline, UTC) is None
    assert find_weeks(holes, timeline, UTC).is_empty()
