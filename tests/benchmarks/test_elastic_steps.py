from __future__ import annotations

import json
from dataclasses import asdict

import pytest

from benchmarks.elastic.steps import (
    Step,
    change_in,
    parse_steps,
    quantile,
    settled,
    step_time_s,
    steps_of_last_world,
)


def world(name: str, ranks: int, first: int, ended_s: list[float]) -> list[Step]:
    """Consecutive steps of one world, each begun 0.01 s before it ended."""
    return [Step(first + index, name, ranks, 1, time_s - 0.01, time_s) for index, time_s in enumerate(ended_s)]


def test_a_pause_lasts_from_the_last_step_before_to_the_end_of_the_first_after() -> None:
    change = change_in([*world("a", 2, 1, [1.0, 1.1, 1.2]), *world("b", 4, 4, [1.5, 1.7])])
    assert change.pause_s == pytest.approx(0.3)
    assert (change.step_before_s, change.step_after_s) == (pytest.approx(0.1), pytest.approx(0.2))
    assert change.redone_steps == 0


def test_the_slowest_step_before_is_of_the_old_world() -> None:
    change = change_in([*world("a", 2, 1, [1.0, 1.1, 1.5, 1.6]), *world("b", 4, 5, [2.5, 3.7])])
    assert change.slowest_before_s == pytest.approx(0.4)
    assert change_in(world("a", 2, 1, [1.0])).slowest_before_s is None


def test_pauses_of_a_change_through_several_worlds_add_up_without_the_steps_between() -> None:
    change = change_in([*world("a", 2, 1, [1.0, 1.1]), *world("b", 3, 3, [1.4, 5.0]), *world("c", 4, 5, [5.2])])
    assert change.pauses_s == (pytest.approx(0.3), pytest.approx(0.2))
    assert change.pause_s == pytest.approx(0.5)


def test_a_world_of_the_same_size_is_another_world() -> None:
    assert change_in([*world("a", 2, 1, [1.0]), *world("b", 2, 2, [1.5])]).pauses_s == (0.5,)


def test_no_change_is_no_pause() -> None:
    assert change_in(world("a", 2, 1, [1.0, 1.1])).pauses_s == ()


def test_steps_since_the_checkpoint_are_counted_as_redone() -> None:
    change = change_in([*world("a", 3, 98, [1.0, 1.1, 1.2]), *world("b", 2, 51, [9.0])])
    assert change.redone_steps == 50


def test_a_step_that_only_its_killed_rank_0_could_have_told_of_is_not_redone() -> None:
    assert change_in([*world("a", 3, 7, [1.0]), *world("b", 2, 9, [1.5])]).redone_steps == 0


def test_lines_may_come_in_any_order() -> None:
    steps = [*world("b", 4, 3, [1.5]), *world("a", 2, 1, [1.0, 1.1])]
    assert change_in(steps).pauses_s == (pytest.approx(0.4),)


def test_one_step_tells_no_step_time() -> None:
    assert step_time_s(world("a", 2, 1, [1.0])) is None


def test_settled_is_a_world_of_that_size_that_did_so_many_steps() -> None:
    steps = [*world("a", 2, 1, [1.0, 1.1]), *world("b", 3, 3, [1.5, 1.6, 1.7])]
    assert settled(steps, 3, 3)
    assert not settled(steps, 3, 4)
    assert not settled(steps, 2, 3)
    assert not settled([], 2, 1)
    assert steps_of_last_world(steps) == steps[2:]


def test_a_world_whose_name_comes_again_is_another_one() -> None:
    steps = [*world("a", 2, 1, [1.0, 1.1]), *world("b", 3, 3, [1.5]), *world("a", 2, 4, [1.9, 2.0])]
    assert steps_of_last_world(steps) == steps[3:]
    assert change_in(steps).slowest_before_s == pytest.approx(0.1)


def test_steps_are_read_as_they_were_written() -> None:
    steps = world("a", 2, 1, [1.0, 1.1])
    assert parse_steps("".join(json.dumps(asdict(step)) + "\n" for step in steps)) == steps


@pytest.mark.parametrize(("share", "value"), [(0.0, 1.0), (0.5, 2.5), (0.95, 3.85), (1.0, 4.0)])
def test_quantiles_are_interpolated(share: float, value: float) -> None:
    assert quantile([4.0, 1.0, 3.0, 2.0], share) == pytest.approx(value)


def test_every_quantile_of_one_value_is_that_value() -> None:
    assert quantile([7.0], 0.95) == 7.0
