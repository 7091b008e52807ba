"""How fast a trainer was seen to be on nodes of different kinds."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freetrain.core.seen_speeds import ELSEWHERE, at_speed_1, kind_of_nodes, seen_speeds
from freetrain.core.throughput_fit import Observation

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
