from __future__ import annotations

from dataclasses import replace
from math import inf

from freetrain.core.cluster import Snapshot
from freetrain.core.fragment import End, Fragment, FragmentState
from freetrain.core.fragment_queue import FragmentQueue
from freetrain.lending.facts import Facts
from freetrain.lending.rules import NodeRules, Share
from freetrain.lending.sightings import Sightings
from tests.facts import node

NOW_S = 1000.0
ENDED = Fragment("7_1", "7", "n1", FragmentState.ENDED, 900.0, 3600.0, 901.0, 990.0, End.PREEMPTED)


def snapshot(at_s: float = NOW_S, state: str = "IDLE") -> Snapshot:
    return Snapshot(at_s, (node("n1", state),), ())


def test_a_node_idles_since_the_first_look_in_a_row_that_said_so() -> None:
    seen = Sightings()
    for at_s, state in ((1.0, "IDLE"), (2.0, "ALLOCATED"), (3.0, "IDLE"), (4.0, "IDLE")):
        seen = seen.with_nodes(Facts(snapshot(at_s, state)))
    assert seen.idle_since_s == {"n1": 3.0}
    lent = Fragment("7_1", "7", "n1", FragmentState.RUNNING, 900.0, 3600.0)
    assert seen.with_nodes(Facts(snapshot(5.0), (lent,))).idle_since_s == {}


def test_a_node_rests_after_it_was_taken_back() -> None:
    seen = Sightings().with_ends([ENDED], NOW_S, 30.0)
    assert seen.resting_until_s == {"n1": NOW_S + 30}
    assert seen.with_nodes(Facts(snapshot(NOW_S + 31))).resting_until_s == {}
    assert Sightings().with_ends([ENDED], NOW_S, 0.0).resting_until_s == {}


def test_a_node_rests_on_which_slurm_did_not_start_a_fragment() -> None:
    assert Sightings().with_start_timeouts([ENDED], NOW_S, (60.0, 60.0)).resting_until_s == {"n1": NOW_S + 60}


def test_each_time_in_a_row_it_rests_twice_as_long_until_a_fragment_has_run_there() -> None:
    seen, rests_s = Sightings(), []
    for _ in range(4):
        seen = seen.with_start_timeouts([ENDED], NOW_S, (15.0, 60.0))
        rests_s.append(seen.resting_until_s["n1"] - NOW_S)
    assert rests_s == [15, 30, 60, 60]
    running = Fragment("7_1", "7", "n1", FragmentState.RUNNING, 900.0, 3600.0)
    again = seen.with_nodes(Facts(snapshot(NOW_S), (running,))).with_start_timeouts([ENDED], NOW_S, (15.0, 60.0))
    assert again.resting_until_s == {"n1": NOW_S + 15}


RULES = NodeRules(FragmentQueue("freetrain"), claim_s=65.0)


def test_time_alone_changes_what_may_be_lent_when_a_claim_a_rest_or_a_wait_is_over() -> None:
    seen = Sightings({"n1": NOW_S - 5, "n2": NOW_S - 5}, {"n2": NOW_S + 30}, {"7": NOW_S - 40, "8": NOW_S - 100})
    assert seen.next_change_s(NOW_S, RULES) == NOW_S + 25
    assert seen.next_change_s(NOW_S, replace(RULES, idle_for_s=20.0)) == NOW_S + 15
    assert seen.next_change_s(NOW_S + 25, RULES) == NOW_S + 30
    assert seen.next_change_s(NOW_S + 30, RULES) == inf


def test_the_end_of_a_rest_changes_nothing_on_a_node_that_somebody_has_all_of() -> None:
    seen = Sightings({"n1": NOW_S - 5}, {"n2": NOW_S + 30})
    assert seen.next_change_s(NOW_S, RULES) == inf
    assert seen.next_change_s(NOW_S, replace(RULES, share=Share.GPUS)) == NOW_S + 30
