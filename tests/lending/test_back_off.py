from __future__ import annotations

from dataclasses import replace

import pytest

from freetrain.core.fragment import End, Fragment, FragmentState
from freetrain.core.harm import Harm
from freetrain.lending.back_off import BackOff, Cause, LostNode, LostNodes, evictions_after, find_back_off
from freetrain.lending.rules import HarmRules

LIMITS = HarmRules(delay_s=60.0, within_s=3600.0, allowed=2, pause_s=600.0, evictions=3)
NONE_LOST = LostNodes()
ENDED = Fragment("7_1", "7", "n1", FragmentState.ENDED, 500.0, 3600.0, 501.0, 900.0, End.PREEMPTED)


def harm(started_s: float, delay_s: float = 90.0) -> Harm:
    return Harm("9", started_s, delay_s, 0.0, 0.0, ("7_1",))


def lost(*found_s: float) -> LostNodes:
    return LostNodes(tuple(LostNode(f"n{at_s:g}", "IDLE+DRAIN", "7_1", at_s) for at_s in found_s))


@pytest.mark.parametrize("delays_s", [(100.0, 200.0), (100.0, 200.0, 5000.0)])
def test_as_many_delays_as_are_allowed_in_the_time_change_nothing(delays_s: tuple[float, ...]) -> None:
    assert find_back_off(map(harm, delays_s), (), NONE_LOST, delays_s[-1], LIMITS) is None


def test_one_delay_too_many_ends_lending_until_the_pause_is_over() -> None:
    harms = [harm(100.0), harm(200.0), harm(300.0)]
    assert find_back_off(harms, (), NONE_LOST, 301.0, LIMITS) == BackOff(Cause.DELAYS, 900.0)
    assert find_back_off(harms, (), NONE_LOST, 899.0, LIMITS) == BackOff(Cause.DELAYS, 900.0)
    assert find_back_off(harms, (), NONE_LOST, 900.0, LIMITS) is None


def test_delays_that_are_not_too_much_do_not_count() -> None:
    assert find_back_off([harm(100.0), harm(200.0, 30.0), harm(300.0)], (), NONE_LOST, 301.0, LIMITS) is None


def test_nodes_lost_are_counted_in_the_same_way() -> None:
    assert find_back_off((), (), lost(100.0, 200.0), 201.0, LIMITS) is None
    assert find_back_off((), (), lost(100.0, 200.0, 300.0), 301.0, LIMITS) == BackOff(Cause.LOST_NODES, 900.0)


def test_so_are_evictions_where_a_limit_is_set() -> None:
    evicted_s = (100.0, 200.0, 200.0, 200.0)
    assert find_back_off((), evicted_s, NONE_LOST, 201.0, LIMITS) == BackOff(Cause.EVICTIONS, 800.0)
    assert find_back_off((), evicted_s[1:], NONE_LOST, 201.0, LIMITS) is None
    assert find_back_off((), evicted_s, NONE_LOST, 201.0, replace(LIMITS, evictions=0)) is None


def test_of_several_the_longest_counts() -> None:
    harms = [harm(100.0), harm(200.0), harm(300.0)]
    found = find_back_off(harms, (400.0,) * 4, NONE_LOST, 401.0, LIMITS)
    assert found == BackOff(Cause.EVICTIONS, 1000.0)


def test_without_a_pause_nothing_stops_lending_not_even_a_start_that_lies_ahead() -> None:
    harms = [harm(100.0), harm(200.0), harm(300.0)]
    assert find_back_off(harms, (), lost(300.0), 299.5, replace(LIMITS, pause_s=0.0)) is None


def test_it_says_why_and_until_when() -> None:
    said = BackOff(Cause.EVICTIONS, 1_764_000_000.0).sentence
    assert said == "backing off until 2025-11-24T16:00:00Z: Slurm evicted more fragments than harm.evictions"


def test_only_what_slurm_preempted_is_an_eviction_and_is_remembered_as_long_as_it_counts() -> None:
    given_back = replace(ENDED, end=End.RELEASED)
    assert evictions_after((100.0,), [ENDED, given_back], 950.0, LIMITS) == (100.0, 900.0)
    of_two_nodes = [ENDED, replace(ENDED, node="n2")]
    assert evictions_after((), of_two_nodes, 950.0, LIMITS) == (900.0,)
    assert evictions_after((100.0, 900.0), [], 100.0 + 4200.0, LIMITS) == (900.0,)


def test_no_eviction_is_remembered_where_any_number_may_be() -> None:
    assert evictions_after((100.0,), [ENDED], 950.0, replace(LIMITS, evictions=0)) == ()
