from __future__ import annotations

from freetrain.core.harm import Harm
from freetrain.daemon.reports.news import Heard, Kind, heard_after, news_of
from freetrain.daemon.reports.status import LookStatus, TrainerStatus
from freetrain.lending.judge import Memory
from freetrain.lending.lost_nodes import LostNode, LostNodes
from freetrain.lending.meter import Meter

LOOK = LookStatus(time_s=1000.0, took_s=0.1)
NOTHING_HEARD = Heard(False, frozenset())
PAUSED = TrainerStatus("7", "news", "paused", note="paused after 5 failures in a row")


def told(look: LookStatus, before: Heard = NOTHING_HEARD, memory: Memory | None = None) -> list[tuple[Kind, str]]:
    return [(one.kind, one.what) for one in news_of(look, memory or Memory(), before, 60.0)]


def test_a_delay_is_told_if_it_is_longer_than_the_limit() -> None:
    short, long = Harm("9", 990.0, 50.0, 5.0, 5.0, ("7_0",)), Harm("8", 990.0, 80.0, 5.0, 5.0, ("7_0", "7_1"))
    assert told(LOOK, memory=Memory(meter=Meter(new=(short, long)))) == [
        (Kind.HARM, "job 8 started 90 s later because of fragments 7_0, 7_1")
    ]


def test_a_stop_of_lending_is_told_when_it_begins() -> None:
    stopped = LookStatus(time_s=1000.0, took_s=0.1, stopped_by="stopped by /run/freetrain/STOP")
    assert told(stopped) == [(Kind.PAUSE, "nothing is lent: stopped by /run/freetrain/STOP")]
    assert told(stopped, heard_after(stopped)) == []
    paused = LookStatus(time_s=1000.0, took_s=0.1, paused_by="paused by root")
    assert told(paused, heard_after(LOOK)) == [(Kind.PAUSE, "nothing more is lent: paused by root")]


def test_a_training_that_is_paused_and_a_node_that_is_lost_are_failures() -> None:
    look = LookStatus(time_s=1000.0, took_s=0.1, trainers=(PAUSED, TrainerStatus("8", "news", "active")))
    assert told(look) == [(Kind.FAILURE, "training 7 of news is paused after 5 failures in a row")]
    assert told(look, heard_after(look)) == []
    lost = Memory(lost=LostNodes(new=(LostNode("n1", "DOWN", "7_0", 1000.0),)))
    ((kind, what),) = told(LOOK, memory=lost)
    assert (kind, what.startswith("node n1 is out of service (DOWN) since fragment 7_0")) == (Kind.FAILURE, True)
