from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from freetrain.lending.pace import next_look_s, retry_after_s

NOW_S = 1_000_000.0


def test_without_a_plan_to_meet_it_is_the_usual_time() -> None:
    assert next_look_s(NOW_S, 30.0, None, 30.0, 0.1) == NOW_S + 30
    assert next_look_s(NOW_S, 30.0, NOW_S - 40, 30.0, 0.1) == NOW_S + 30


def test_a_look_is_over_a_second_before_the_next_plan() -> None:
    assert next_look_s(NOW_S, 30.0, NOW_S - 10, 30.0, 0.5) == NOW_S + 20 - 1.5


def test_once_in_step_it_stays_in_step() -> None:
    before_plan_s = NOW_S + 20 - 1.5
    assert next_look_s(before_plan_s + 0.2, 30.0, NOW_S - 10, 30.0, 0.5) == before_plan_s + 30


def test_who_looks_more_often_than_slurm_plans_looks_before_the_plan_too() -> None:
    assert next_look_s(NOW_S, 5.0, NOW_S - 10, 30.0, 0.5) == NOW_S + 5
    assert next_look_s(NOW_S + 15, 5.0, NOW_S - 10, 30.0, 0.5) == NOW_S + 18.5
    assert next_look_s(NOW_S + 18.6, 5.0, NOW_S - 10, 30.0, 0.5) == NOW_S + 23.6


@given(st.floats(0, 60), st.sampled_from((5.0, 10.0, 30.0)), st.sampled_from((0.2, 1, 2, 4)), st.floats(0, 5))
def test_it_is_never_past_nor_later_than_usual(
    plan_ago_s: float, interval_s: float, polls: float, look_s: float
) -> None:
    poll_s = polls * interval_s
    at_s = next_look_s(NOW_S, poll_s, NOW_S - plan_ago_s, interval_s, look_s)
    assert max(NOW_S, NOW_S + poll_s - interval_s - 1e-6) <= at_s <= NOW_S + poll_s + 1e-6


def test_a_silent_slurm_is_asked_ever_less_often_and_once_a_minute_in_the_end() -> None:
    assert [retry_after_s(10.0, failures) for failures in range(1, 6)] == [10.0, 20.0, 40.0, 60.0, 60.0]
    assert retry_after_s(0.5, 10_000) == 60.0


def test_it_is_never_asked_more_often_than_usual() -> None:
    assert [retry_after_s(120.0, failures) for failures in (1, 2, 9)] == [120.0] * 3
