"""Nodes that were down, drained or reserved are not idle, where files say when that was."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from freetrain.errors import InputError
from tests.replay.logs.build import DAY, Write, holes_of, read, row, sacct

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
