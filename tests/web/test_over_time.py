"""The pictures of the last day and of what is expected: each thing stands where its time is."""

from __future__ import annotations

from math import inf

import pytest

from freetrain.core.place import Lease
from freetrain.daemon.reports.status import NodeGroup, RecentNodes
from freetrain.web.over_time import (
    COLUMNS,
    PageWindow,
    draw_node_times,
    draw_over_time,
    past_shown_s,
    trainer_colours,
)
from tests.web.png import read_png

NOW_S = 1_800_000_000.0
HOUR = COLUMNS // 30
NOW = 24 * HOUR
CLEAR, FREE_AHEAD, LENT_AHEAD, WANTED, FIRST = range(5)
OTHERS = FIRST + 12


def test_what_was_lent_stands_where_its_time_is_and_the_rest_is_clear() -> None:
    stays = [
        Lease("n1", "a", NOW_S - 7200, NOW_S - 3600),
        Lease("n1", "b", NOW_S - 3600, inf),
        Lease("n2", "a", NOW_S - 1e6, NOW_S - 9e4),
        Lease("gone", "a", NOW_S - 60, inf),
    ]
    colours = trainer_colours(["a", "b"])
    cells = read_png(draw_node_times(["n1", "n2"], stays, [], colours, PageWindow(NOW_S, NOW_S - 1800)))
    assert set(cells[0, NOW - 2 * HOUR : NOW - HOUR]) == {FIRST}
    assert set(cells[0, NOW - HOUR : NOW - HOUR // 2]) == {FIRST + 1}
    assert not cells[0, NOW - HOUR // 2 :].any(), "since then nobody has looked"
    assert not cells[0, : NOW - 2 * HOUR].any()
    assert not cells[1].any(), "that is more than a day ago"


def test_what_is_expected_begins_now_and_ends_where_somebody_is_expected() -> None:
    groups = [
        NodeGroup("n1", "lent", "a", until_s=NOW_S + 3600), NodeGroup("n2", "free"), NodeGroup("n3", "not lent"),
        NodeGroup("n4", "free", until_s=NOW_S - 5),
    ]  # fmt: skip
    cells = read_png(draw_node_times(["n1", "n2", "n3", "n4"], [], groups, {}, PageWindow(NOW_S, NOW_S)))
    assert not cells[:, :NOW].any()
    assert set(cells[0, NOW : NOW + HOUR]) == {LENT_AHEAD}
    assert set(cells[0, NOW + HOUR : NOW + HOUR + 3]) == {WANTED}
    assert not cells[0, NOW + HOUR + 3 :].any()
    assert set(cells[1, NOW:]) == {FREE_AHEAD}
    assert not cells[2].any()
    assert cells[3, NOW] == WANTED, "it is overdue"


def test_where_there_are_more_trainings_than_colours_all_have_one() -> None:
    many = [str(number) for number in range(13)]
    assert trainer_colours(many) == {}
    assert len(set(trainer_colours(many[:12]).values())) == 12
    cells = read_png(draw_node_times(["n"], [Lease("n", "7", NOW_S - 60, inf)], [], {}, PageWindow(NOW_S, NOW_S)))
    assert set(cells[0]) == {CLEAR, OTHERS}


def test_periods_are_as_high_as_their_nodes_and_there_is_nothing_where_nobody_looked() -> None:
    start_s = NOW_S - NOW_S % 300
    recent = [RecentNodes(start_s - 3600, 5, 10.0, 5.0), RecentNodes(start_s - 600, 5, 8.0, 0.0)]
    drawn = draw_over_time(recent, PageWindow(NOW_S, NOW_S))
    assert drawn.top_nodes == 10
    assert drawn.idle.count("M") == 2
    assert drawn.idle.startswith("M766.67 100V0.00H769.44V100z")
    assert drawn.lent == "M766.67 100V50.00H769.44V100z"


@pytest.mark.parametrize(("nodes", "top"), [(0.0, 1), (3.2, 4), (11.0, 15), (100.0, 100), (4999.0, 5000)])
def test_the_upper_edge_is_a_round_number_of_nodes(nodes: float, top: int) -> None:
    assert draw_over_time([RecentNodes(NOW_S - 600, 1, nodes, 0.0)], PageWindow(NOW_S, NOW_S)).top_nodes == top


def test_marks_of_the_axis_stand_at_round_times_within_it() -> None:
    window = PageWindow(NOW_S, NOW_S)
    marks = window.marks
    assert 6 <= len(marks) <= 12
    assert all(0 < mark.percent < 100 for mark in marks)
    assert all(mark.label.endswith(":00") or mark.label.count("-") == 2 for mark in marks)
    assert (window.percent(window.from_s), window.percent(NOW_S), window.percent(1e12)) == (0.0, 80.0, 100.0)


@pytest.mark.parametrize(("known_h", "shown_h"), [(0.0, 1), (0.9, 1), (1.1, 6), (5.9, 6), (7, 24), (100, 24)])
def test_of_a_daemon_that_has_not_run_long_less_of_the_past_is_shown(known_h: float, shown_h: int) -> None:
    now_s = 1.8e9
    past_s = past_shown_s(now_s, now_s - 3600 * known_h)
    window = PageWindow(now_s, now_s, past_s)
    assert window.now_s - window.from_s == 3600 * shown_h
    assert window.until_s - window.now_s == 900 * shown_h
