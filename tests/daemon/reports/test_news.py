from __future__ import annotations

from dataclasses import replace

from freetrain.core.harm import Harm
from freetrain.daemon.reports.notices import NewsKind, Noticed, news_of, noticed_after
from freetrain.daemon.reports.status import LookStatus, TrainerStatus
from freetrain.lending.back_off import LostNode, LostNodes
from freetrain.lending.memory import Memory
from freetrain.lending.meter import Meter

LOOK = LookStatus(time_s=1000.0, took_s=0.1)
NOTHING: Noticed = {}


def of_trainings(states: dict[str, str]) -> Noticed:
    return {f"training {id_}": state for id_, state in states.items()}


KNOWN = of_trainings({"7": "active", "8": "active"})
PAUSED = TrainerStatus("7", "news", "paused", note="paused after 5 failures in a row")


def told(look: LookStatus, before: Noticed = NOTHING, memory: Memory | None = None) -> list[tuple[str, str]]:
    return [(news_item.kind, news_item.what) for news_item in news_of(look, memory or Memory(), before, 60.0)]


def test_a_delay_is_told_if_it_is_longer_than_the_limit() -> None:
    short, long = Harm("9", 990.0, 50.0, 5.0, 5.0, ("7_0",)), Harm("8", 990.0, 80.0, 5.0, 5.0, ("7_0", "7_1"))
    assert told(LOOK, memory=Memory(meter=Meter(harms=(short, long)))) == [
        (NewsKind.HARM, "job 8 started 90 s later because of fragments 7_0, 7_1")
    ]


def test_a_stop_of_lending_is_told_when_it_begins() -> None:
    stopped = LookStatus(time_s=1000.0, took_s=0.1, stopped_by="stopped by /run/freetrain/STOP")
    assert told(stopped) == [(NewsKind.PAUSE, "nothing is lent: stopped by /run/freetrain/STOP")]
    assert told(stopped, noticed_after(stopped, Memory())) == []
    paused = LookStatus(time_s=1000.0, took_s=0.1, paused_by="paused by root")
    assert told(paused, noticed_after(LOOK, Memory())) == [
        (NewsKind.PAUSE, "nothing more is lent: paused by root")
    ]


def test_a_training_that_is_paused_and_a_node_that_is_lost_are_failures() -> None:
    look = LookStatus(time_s=1000.0, took_s=0.1, trainers=(PAUSED, TrainerStatus("8", "news", "active")))
    assert told(look, KNOWN)[0] == (NewsKind.FAILURE, "training 7 of news is paused after 5 failures in a row")
    assert told(look, noticed_after(look, Memory())) == []
    lost = Memory(lost=LostNodes((LostNode("n1", "DOWN", "7_0", 1000.0),)))
    ((kind, what),) = told(LOOK, memory=lost)
    assert (kind, what.startswith("node n1 is out of service (DOWN) since fragment 7_0")) == (
        NewsKind.FAILURE,
        True,
    )


def told_owners(before: Noticed, *trainers: TrainerStatus) -> list[tuple[str, str, str]]:
    look = LookStatus(time_s=1000.0, took_s=0.1, trainers=trainers)
    news = news_of(look, Memory(), before, 60.0)
    return [
        (news_item.kind, news_item.owner, news_item.what)
        for news_item in news
        if NewsKind(news_item.kind).is_for_owners
    ]


def test_an_owner_hears_that_a_training_is_registered_once() -> None:
    new = TrainerStatus("9", "games", "active")
    says = "training 9 is registered: it may be lent idle nodes from now on"
    assert told_owners(KNOWN, new) == [(NewsKind.REGISTERED, "games", says)]
    assert told_owners(of_trainings({"9": "active"}), new) == []
    assert told_owners(of_trainings({"9": "resting"}), new) == []


def test_a_training_that_is_refused_is_not_registered() -> None:
    assert told_owners(KNOWN, TrainerStatus("9", "games", "refused", note="max is no number")) == []


def test_an_owner_hears_that_a_training_is_complete() -> None:
    done = TrainerStatus("7", "news", "complete")
    assert told_owners(KNOWN, done) == [(NewsKind.FINISHED, "news", "training 7 is complete")]
    assert told_owners(of_trainings({"7": "complete"}), done) == []
    assert told_owners(NOTHING, done) == [], "it was so before anybody knew of it"


def test_an_owner_hears_that_a_training_is_paused() -> None:
    assert told_owners(KNOWN, PAUSED) == [
        (NewsKind.PAUSED, "news", "training 7 is paused after 5 failures in a row")
    ]
    assert told_owners(of_trainings({"7": "paused"}), PAUSED) == []


def test_an_owner_hears_of_work_that_is_lost_each_time_that_more_is() -> None:
    lost = TrainerStatus("7", "news", "active", fault="1 run was lost", lost_s=990.0)
    before = noticed_after(LookStatus(time_s=1000.0, took_s=0.1, trainers=(lost,)), Memory())
    assert told_owners(KNOWN, lost) == [(NewsKind.LOSS, "news", "of filler 7 1 run was lost")]
    assert told_owners(before, lost) == []
    assert told_owners(before, replace(lost, lost_s=995.0)) == [
        (NewsKind.LOSS, "news", "of filler 7 1 run was lost")
    ]
    assert told_owners(before, replace(lost, lost_s=0.0)) == [], "a daemon that begins knows of none"
