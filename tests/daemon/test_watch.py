from __future__ import annotations

from dataclasses import replace

import pytest

from freetrain.core.cluster import Job, JobState, Node, Snapshot
from freetrain.core.fragment import End, Fragment, FragmentState
from freetrain.core.harm import Harm
from freetrain.core.lendable import Lendable
from freetrain.daemon.watch import HarmLimits, Watch, paused_until_s

NOW_S = 1000.0
LIMITS = HarmLimits(delay_s=60.0, within_s=3600.0, allowed=2, pause_s=600.0)
WAITING = Job("9", "9", "games", "main", JobState.PENDING, submitted_s=NOW_S - 500)


def harm(started_s: float, delay_s: float = 90.0) -> Harm:
    return Harm("9", delay_s, started_s, ("7_1",))


def snapshot(*jobs: Job, at_s: float = NOW_S, state: str = "IDLE") -> Snapshot:
    return Snapshot(at_s, (Node("n1", state),), jobs)


def nothing_lendable(*fitting: str) -> Lendable:
    return Lendable((), {}, {}, frozenset(fitting))


def test_more_delays_than_allowed_in_the_time_pause_everything_for_a_while() -> None:
    assert paused_until_s([harm(100.0), harm(200.0)], LIMITS) == 0.0
    assert paused_until_s([harm(100.0), harm(200.0), harm(300.0)], LIMITS) == 900.0
    assert paused_until_s([harm(100.0), harm(200.0), harm(5000.0)], LIMITS) == 0.0
    assert paused_until_s([harm(100.0), harm(200.0, delay_s=30.0), harm(300.0)], LIMITS) == 0.0


def test_a_node_idles_since_the_first_look_in_a_row_that_said_so() -> None:
    watch = Watch(0.0)
    for at_s, state in ((1.0, "IDLE"), (2.0, "ALLOCATED"), (3.0, "IDLE"), (4.0, "IDLE")):
        watch.note_snapshot(snapshot(at_s=at_s, state=state), frozenset())
    assert watch.past.idle_since_s == {"n1": 3.0}
    watch.note_snapshot(snapshot(at_s=5.0), frozenset({"n1"}))
    assert watch.past.idle_since_s == {}


def test_a_node_rests_after_it_was_taken_back() -> None:
    watch = Watch(30.0)
    ended = Fragment("7_1", "7", "n1", FragmentState.ENDED, 900.0, 3600.0, 901.0, 990.0, End.PREEMPTED)
    watch.note_ends([ended], NOW_S)
    assert watch.past.resting_until_s == {"n1": NOW_S + 30}
    watch.note_snapshot(snapshot(at_s=NOW_S + 31), frozenset())
    assert watch.past.resting_until_s == {}


@pytest.mark.parametrize(("fitting", "delay_s"), [((), 12.0), (("9",), 42.0)])
def test_only_the_time_in_which_a_job_was_ready_is_harm(fitting: tuple[str, ...], delay_s: float) -> None:
    watch = Watch(0.0)
    watch.measure_harms(snapshot(WAITING, at_s=NOW_S - 30), "freetrain")
    watch.note_fitting(nothing_lendable(*fitting), snapshot(WAITING, at_s=NOW_S - 30))
    watch.note_fitting(nothing_lendable(*fitting), snapshot(WAITING))
    ended = Fragment("7_1", "7", "n1", FragmentState.ENDED, 100.0, 3600.0, 101.0, NOW_S + 11, End.PREEMPTED)
    watch.note_ends([ended], NOW_S + 15)
    started = replace(WAITING, state=JobState.RUNNING, nodes=frozenset({"n1"}), start_s=NOW_S + 12)
    (measured,) = watch.measure_harms(snapshot(started, at_s=NOW_S + 15), "freetrain")
    assert measured.delay_s == delay_s
    assert watch.measure_harms(snapshot(started, at_s=NOW_S + 20), "freetrain") == []
