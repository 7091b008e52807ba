"""How fast a trainer was seen to be on nodes of different kinds."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freetrain.core.observed import (
    ELSEWHERE,
    RunningMean,
    SeenCosts,
    SizeChange,
    at_speed_1,
    kind_of_nodes,
    seen_speeds,
)
from freetrain.core.throughput import Observation

SAID = {"a100": 1.0, "v100": 0.4}


def seen(kind: str, *rates: tuple[int, float], times: int = 1) -> list[Observation]:
    return [Observation(nodes, rate, 5.0, kind) for nodes, rate in rates] * times


def test_until_two_kinds_were_seen_on_as_many_nodes_the_owners_word_counts() -> None:
    assert seen_speeds([], SAID) == SAID
    assert seen_speeds(seen("v100", (1, 10.0), (2, 20.0)), SAID) == SAID
    assert seen_speeds(seen("a100", (1, 100.0)) + seen("v100", (2, 20.0)), SAID) == SAID


def test_what_the_owner_says_counts_as_much_as_one_observation() -> None:
    once = seen_speeds(seen("a100", (2, 200.0)) + seen("v100", (2, 20.0)), SAID)
    assert once == {"a100": 1.0, "v100": 0.2}, "between 0.4 and 0.1"
    often = seen_speeds(seen("a100", (2, 200.0)) + seen("v100", (2, 20.0), times=100), SAID)
    assert often == {"a100": 1.0, "v100": 0.11}


def test_nodes_that_are_not_named_have_speed_1_whatever_was_seen_there() -> None:
    rates = seen(ELSEWHERE, (1, 100.0), times=50) + seen("h100", (1, 400.0), times=50)
    found = seen_speeds(rates, {"h100": 2.0})
    assert found["h100"] == pytest.approx(4.0, rel=0.1)


def test_what_was_seen_counts_for_the_curve_as_if_it_had_been_at_speed_1() -> None:
    rates = [*seen("v100", (2, 20.0)), *seen(ELSEWHERE, (1, 60.0)), *seen("gone", (4, 1.0))]
    assert at_speed_1(rates, {"v100": 0.2}) == (Observation(2, 100.0, 5.0), Observation(1, 60.0, 5.0))


def test_a_trainer_goes_by_the_slowest_of_what_is_named_of_its_nodes() -> None:
    assert kind_of_nodes([{"a100", "ib"}, {"a100"}], SAID) == "a100"
    assert kind_of_nodes([{"a100"}, {"v100"}], SAID) == "v100"
    assert kind_of_nodes([{"a100"}, {"ib"}], {"a100": 2.0}) == ELSEWHERE
    assert kind_of_nodes([], SAID) == ELSEWHERE


rates = st.builds(
    Observation,
    st.integers(1, 4),
    st.floats(1e-9, 1e12),
    st.floats(1e-9, 1e9),
    st.sampled_from(["", "a100", "v100", "other"]),
)


@given(st.lists(rates, max_size=12), st.floats(0.01, 100), st.floats(0.01, 100))
def test_whatever_was_seen_speeds_stay_within_what_may_be_said(
    observations: list[Observation], one: float, other: float
) -> None:
    found = seen_speeds(observations, {"a100": one, "v100": other})
    assert found.keys() == {"a100", "v100"}
    assert all(0.0099 <= speed <= 101 for speed in found.values())


TWO_NODES = SeenCosts(nodes=2, since_s=100.0)


def test_until_anything_was_seen_its_owner_is_believed() -> None:
    assert RunningMean().believed_s(30.0) == 30.0


def test_a_word_counts_as_much_as_having_been_seen_once() -> None:
    assert RunningMean().and_then(10.0).believed_s(30.0) == 20.0
    assert RunningMean().and_then(10.0).and_then(10.0).and_then(10.0).believed_s(30.0) == 15.0


def test_what_was_seen_long_ago_fades() -> None:
    seen = RunningMean()
    for seconds in (*[100.0] * 50, *[1.0] * 50):
        seen = seen.and_then(seconds)
    assert 1.0 < seen.mean_s < 2.0
    assert seen.times == 10


@pytest.mark.parametrize("seconds", [-1.0, 1e6, float("nan")])
def test_what_cannot_be_is_not_counted(seconds: float) -> None:
    assert RunningMean().and_then(seconds) == RunningMean()


def test_each_cause_is_counted_for_itself() -> None:
    changes = [
        SizeChange(200.0, 3, "join", 4.0),
        SizeChange(300.0, 2, "leave", 2.0),
        SizeChange(400.0, 1, "loss", 9.0),
        SizeChange(500.0, 0, "broken", 7.0),
        SizeChange(600.0, 2, "start", 0.0, start_s=33.0),
    ]
    costs = TWO_NODES.after(changes, [])
    assert costs.scale_up == RunningMean(4.0, 1)
    assert costs.scale_down == RunningMean(2.0, 1)
    assert costs.forced_loss == RunningMean(8.0, 2)
    assert costs.start == RunningMean(33.0, 1)
    assert (costs.nodes, costs.since_s) == (2, 600.0)


def test_a_boot_lasts_from_the_start_of_a_fragment_until_the_others_stop_for_it() -> None:
    costs = TWO_NODES.after([SizeChange(160.0, 3, "join", 4.0)], [50.0, 60.0, 136.0])
    assert costs.boot == RunningMean(20.0, 1)


def test_of_several_that_join_together_the_last_one_counts() -> None:
    costs = TWO_NODES.after([SizeChange(160.0, 4, "join", 4.0)], [50.0, 60.0, 130.0, 136.0])
    assert costs.boot == RunningMean(20.0, 1)


def test_where_it_is_not_clear_who_joined_no_boot_is_counted() -> None:
    """Two were started since the last change and one joined; or it began to run before that change."""
    join = SizeChange(160.0, 3, "join", 4.0)
    assert TWO_NODES.after([join], [50.0, 60.0, 136.0, 140.0]).boot == RunningMean()
    assert TWO_NODES.after([join], [50.0, 60.0, 90.0]).boot == RunningMean()
