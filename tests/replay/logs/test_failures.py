"""Nodes that fail at random."""

from __future__ import annotations

import pytest

from freetrain.replay.logs.model import Failures
from tests.replay.logs.build import HOUR_S, Write, holes_of, read, row, sacct

EMPTY = sacct(row("1", list="c[1-40]", nodes="40", start="10", end="12"))
IDLE_HOURS = 40 * 22.0


def test_nodes_fail_as_often_as_is_said_and_at_the_same_instants_each_time(write: Write) -> None:
    path = write(EMPTY)
    failing = [read(path, failures=Failures(4 * HOUR_S, 600.0)) for _ in range(2)]
    gone_h = IDLE_HOURS - failing[0].holes.idle_node_hours
    assert gone_h == pytest.approx(IDLE_HOURS / 4 / 6, rel=0.2), "each takes a sixth of an hour"
    assert holes_of(failing[0], "c7") == holes_of(failing[1], "c7")
    assert f"{gone_h:,.1f} node-hours are not idle for that." in " ".join(failing[0].notes)


def test_nodes_with_jobs_do_not_fail(write: Write) -> None:
    log = read(write(EMPTY), failures=Failures(HOUR_S, 1.0))
    for number in range(1, 41):
        assert not any(end == 10 + 1 / 3600 for _, end in holes_of(log, f"c{number}"))
        assert all(end <= 10 or start >= 12 for start, end in holes_of(log, f"c{number}"))
    assert log.rows.used == 1


def test_who_is_out_of_service_longer_than_the_window_does_not_come_back(write: Write) -> None:
    log = read(write(EMPTY), failures=Failures(HOUR_S, 1000 * HOUR_S))
    assert all(len(holes_of(log, f"c{number}")) == 1 for number in range(1, 41))
    assert log.holes.idle_node_hours == pytest.approx(40 * 1.0, rel=0.5), "an hour of idle time each"


def test_where_no_node_is_ever_idle_none_fails(write: Write) -> None:
    log = read(
        write(sacct(row("1", start="00", end="24").replace("03T24", "04T00"))), failures=Failures(60.0, 60.0)
    )
    assert len(log.holes) == 0
    assert "failed at random 0 times" in " ".join(log.notes)


def test_nodes_of_which_only_events_are_known_fail_too(write: Write) -> None:
    text = "t,node,idle\n1717372800,a,1\n1717372800,b,1\n1717459200,a,0\n1717459200,b,0\n"
    assert read(write(text)).holes.idle_node_hours == 48.0
    assert len(read(write(text), failures=Failures(HOUR_S, 60.0)).holes) > 20
