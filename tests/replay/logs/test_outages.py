"""Nodes that were down, drained, reserved, made to fail, or not in use at all."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from freetrain.errors import InputError
from freetrain.replay.logs.model import Failures
from tests.replay.logs.build import DAY, HOUR_S, Write, holes_of, hour, read, row, sacct

LOG = sacct(row("1"), row("2", list="c2"))
EVENTS = "Cluster|NodeName|TimeStart|TimeEnd|State|Reason|User"


def event(
    node: str, start: str, end: str, state: str = "DOWN", cluster: str = "x", reason: str = "bad | worse"
) -> str:
    end = f"{DAY}{end}:00:00" if end.isdigit() else end
    return f"{cluster}|{node}|{DAY}{start}:00:00|{end}|{state}|{reason}|root(0)"


def events(write: Write, *rows: str) -> Path:
    return write("\n".join((EVENTS, *rows)) + "\n")


def test_a_node_is_not_idle_while_it_is_down(write: Write) -> None:
    states = events(write, event("c1", "05", "07", "DOWN*"), event("c2", "10", "Unknown", "DRAIN"))
    log = read(write(LOG), node_states=states)
    assert holes_of(log, "c1") == [(0, 1), (2, 5), (7, 24)]
    assert holes_of(log, "c2") == [(0, 1), (2, 10)]
    assert any("16.0 node-hours without jobs are not idle: the nodes were down" in note for note in log.notes)
    assert not any("those look idle" in note for note in log.notes)


def test_nodes_that_save_power_are_idle(write: Write) -> None:
    log = read(write(LOG), node_states=events(write, event("c1", "05", "07", "IDLE+POWERED_DOWN")))
    assert holes_of(log, "c1") == [(0, 1), (2, 24)]


def test_events_of_whole_clusters_and_of_other_clusters_say_nothing(write: Write) -> None:
    states = events(write, event("", "05", "07", ""), event("c1", "09", "10", cluster="y"))
    text = LOG.replace("JobName", "Cluster").replace("|job|", "|x|")
    assert holes_of(read(write(text), node_states=states, cluster="x"), "c1") == [(0, 1), (2, 24)]


def test_events_that_cannot_be_used_are_counted(write: Write) -> None:
    states = events(write, event("c1", "05", "07"), event("z9", "05", "07"), event("c[1-", "05", "07"))
    notes = " ".join(read(write(LOG), node_states=states).notes)
    assert "has 1 row that could not be understood" in notes
    assert "names 1 node that the machine does not have (such as z9)" in notes


@pytest.mark.parametrize("wrong", ["", "what|ever\n", f"{EVENTS}\nx|c1|soon|later|DOWN||\n"])
def test_a_file_that_says_nothing_of_nodes_is_refused(write: Write, wrong: str) -> None:
    with pytest.raises(InputError):
        read(write(LOG), node_states=write(wrong))


SCONTROL = f"""ReservationName=maint StartTime={DAY}05:00:00 EndTime={DAY}08:00:00 Duration=03:00:00
   Nodes=c[1-2] NodeCnt=2 CoreCnt=16 Features=(null) PartitionName=(null) Flags=MAINT,SPEC_NODES,ALL_NODES
   TRES=cpu=16

ReservationName=class StartTime={DAY}10:00:00 EndTime={DAY}11:00:00 Duration=01:00:00 Nodes=c1 NodeCnt=1
"""
SACCTMGR = f"""Cluster|Name|NodeNames|Start|End
x|maint|c[1-2]|{DAY}05:00:00|{DAY}08:00:00
x|class|c1|{DAY}10:00:00|{DAY}11:00:00
"""


@pytest.mark.parametrize("text", [SCONTROL, SACCTMGR])
def test_reserved_nodes_are_not_idle(write: Write, text: str) -> None:
    log = read(write(LOG), reservations=write(text))
    assert holes_of(log, "c1") == [(0, 1), (2, 5), (8, 10), (11, 24)]
    assert holes_of(log, "c2") == [(0, 1), (2, 5), (8, 24)]
    assert any("7.0 node-hours without jobs are not idle: the nodes were reserved" in note for note in log.notes)


def test_a_list_that_comes_again_and_again_is_read_once(write: Write) -> None:
    rows = [event("big[1-199999]", "05", "06") for _ in range(100)]
    begin_s = time.process_time()
    read(write(LOG), node_states=events(write, *rows))
    assert time.process_time() - begin_s < 5  # a hundred times as long would be a minute


SHOWN = """ReservationName=weekend StartTime={day}04:00:00 EndTime={day}06:00:00 Duration=02:00:00
   Nodes=c[1-2] NodeCnt=2 Flags=MAINT,SPEC_NODES
"""
LICENCES = """ReservationName={name} StartTime={day}02:00:00 EndTime={day}23:00:00 Duration=21:00:00
   Nodes=(null) NodeCnt=0 Flags=ANY_NODES Licenses=solver@server:10 State=ACTIVE
"""


def test_reservations_of_licences_take_no_node_out(write: Write) -> None:
    licences = [LICENCES.format(name=f"lic{number}", day=DAY) for number in range(2)]
    alone = read(write(LOG), reservations=write("\n".join(licences)))
    assert holes_of(alone, "c1") == holes_of(read(write(LOG)), "c1")
    mixed = read(write(LOG), reservations=write("\n".join([SHOWN.format(day=DAY), *licences])))
    assert holes_of(mixed, "c1") == [(0, 1), (2, 4), (6, 24)]


def test_a_long_word_in_a_reservation_takes_no_minutes(write: Write) -> None:
    damaged = SHOWN.format(day=DAY) + "\nReservationName=" + "a" * 30_000
    begin_s = time.process_time()
    log = read(write(LOG), reservations=write(damaged))
    assert time.process_time() - begin_s < 2
    assert holes_of(log, "c1") == [(0, 1), (2, 4), (6, 24)]


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
