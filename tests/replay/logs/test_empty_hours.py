"""Hours in which nearly the whole machine was idle are named, and left out where that is asked."""

from __future__ import annotations

from tests.replay.logs.build import Write, hour, read, row, sacct

BUSY = [
    row(f"{node}{part}", list=f"c{node}", start=start, end=end)
    for node in range(1, 11)
    for part, (start, end) in enumerate([("00", "06"), ("10", "23")])
]
WHOLE = sacct(*BUSY, row("99", list="c1", start="06", end="07"))


def test_they_are_counted_and_warned_of_where_they_matter(write: Write) -> None:
    log = read(write(WHOLE))
    assert log.empty is not None
    # c1 is busy from 06 to 07: only nine of ten nodes are idle then.
    assert (log.empty.from_s.tolist(), log.empty.until_s.tolist()) == ([hour(7), hour(23)], [hour(10), hour(24)])
    assert (log.empty.idle_node_hours, log.empty.all_idle_node_hours) == (40, 49)
    assert "82 % of all idle time" in log.warnings[0]
    assert "Without them 9 are left" in log.warnings[0]


def test_they_can_be_left_out(write: Write) -> None:
    log = read(write(WHOLE), skip_empty_hours=True)
    assert log.holes.idle_node_hours == 9
    assert log.warnings == ()
    assert any("with them, 49 node-hours are idle" in note for note in log.notes)


def test_a_busy_machine_has_none(write: Write) -> None:
    log = read(write(WHOLE), from_s=hour(0), until_s=hour(7))
    assert log.empty is None
    assert read(write(WHOLE), from_s=hour(0), until_s=hour(7), skip_empty_hours=True).holes.idle_node_hours == 9


def test_a_machine_that_was_always_idle_has_no_hole_left(write: Write) -> None:
    log = read(write(sacct(row("1"))), nodes=100, skip_empty_hours=True)
    assert (len(log.holes), log.empty is not None and log.empty.hours) == (0, 24)


def test_the_whole_machine_decides_whichever_nodes_are_looked_at(write: Write) -> None:
    log = read(write(WHOLE), only_nodes="c1")
    assert log.empty is not None
    # This node is idle from 07 to 10 and from 23 on, when all others are, too.
    assert (log.empty.hours, log.empty.idle_node_hours, log.empty.all_idle_node_hours) == (4, 4, 4)
    # Here it is idle from 01 to 06, while all others have jobs.
    busy = sacct(*BUSY[2:], row("99", list="c1", start="00", end="01"))
    assert read(write(busy), only_nodes="c1", until_s=hour(6)).empty is None
