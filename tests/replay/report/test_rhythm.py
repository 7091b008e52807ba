from __future__ import annotations

from datetime import UTC
from zoneinfo import ZoneInfo

import pytest

from freetrain.core.holes import Holes
from freetrain.replay.report.series import about_weeks, find_rhythm, find_weeks
from tests.replay.report.conftest import FROM_S, make_holes, make_record

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
    assert [week.begins for week in weeks] == ["2023-11-20", "2023-11-27", "2023-12-04"]
    assert [week.idle_node_hours for week in weeks] == pytest.approx([120.0, 120.0, 72.0])
    said = about_weeks(weeks).replace("\N{NO-BREAK SPACE}", " ")
    assert said.startswith("Of the 3 whole weeks, that of 2023-12-04 had the fewest idle node-hours (72)")
    assert "0 % to 0 % of them were lent" in said
    assert about_weeks(weeks[:1]) == ""


def test_a_few_days_have_no_rhythm() -> None:
    holes = make_holes([(0, 0, DAY_S)], 1, 3 * DAY_S)
    timeline = make_record(holes, ()).timeline
    assert find_rhythm(holes, timeline, UTC) is None
    assert find_weeks(holes, timeline, UTC) == ()
