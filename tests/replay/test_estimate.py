"""Estimates from some hours: where they come from, and how often the interval holds."""

from __future__ import annotations

import random
from collections.abc import Callable
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freetrain.replay.estimate import (
    MIN_BLOCKS,
    BlockPair,
    blocks_in_turn,
    estimate_daemon,
    ratio_of,
)

HOUR_S = 3600.0
DAY_S = 24 * HOUR_S


@given(st.integers(1, 400), st.integers(0, 5))
def test_all_blocks_come_once_and_cover_the_log(count: int, seed: int) -> None:
    until_s = count * 100.0 - 30.0
    blocks = blocks_in_turn(0.0, until_s, 100.0, seed)
    assert sorted(start_s for start_s, _ in blocks) == [100.0 * number for number in range(count)]
    assert sum(end_s - start_s for start_s, end_s in blocks) == pytest.approx(until_s)


def test_the_first_blocks_are_spread_over_the_log_and_over_the_day() -> None:
    blocks = blocks_in_turn(0.0, 30 * DAY_S, 4 * HOUR_S, 0)[:24]
    assert len({int(start_s // (5 * DAY_S)) for start_s, _ in blocks}) == 6
    assert {int(start_s % DAY_S // (4 * HOUR_S)) for start_s, _ in blocks} == set(range(6))


def test_a_ratio_is_exact_once_all_blocks_are_known() -> None:
    known = ratio_of([1.0, 2.0], [2.0, 4.0], 2)
    assert (known.value, known.within) == (0.5, 0.0)
    assert ratio_of([1.0], [2.0], 2).within == inf


def test_the_interval_holds_nineteen_times_in_twenty() -> None:
    draw = random.Random(3)
    wholes = [draw.lognormvariate(0.0, 1.0) for _ in range(200)]
    parts = [whole * draw.uniform(0.6, 1.0) for whole in wholes]
    true = sum(parts) / sum(wholes)
    holds = 0
    for _ in range(400):
        some = draw.sample(range(200), 20)
        found = ratio_of([parts[one] for one in some], [wholes[one] for one in some], 200)
        holds += abs(found.value - true) <= found.within
    assert 0.90 <= holds / 400 <= 0.99


class Watch:
    """A stopwatch that a replay of a block moves on by so many seconds."""

    def __init__(self, block_takes_s: float) -> None:
        self.now_s = 0.0
        self._block_takes_s = block_takes_s

    def replay_block(self, from_s: float, until_s: float) -> BlockPair:
        self.now_s += self._block_takes_s
        hours = (until_s - from_s) / HOUR_S
        return (hours, hours, hours), (0.8 * hours, 0.9 * hours, 0.7 * hours)

    def estimate(self, budget_s: float, progress: Callable[[float], None] = lambda part: None):  # type: ignore[no-untyped-def]
        allowed = 0.95, 1000.0, 900.0
        window = 0.0, 30 * DAY_S
        return estimate_daemon(window, allowed, self.replay_block, budget_s, lambda: self.now_s, progress)


def test_blocks_are_replayed_until_the_time_is_over() -> None:
    parts: list[float] = []
    found = Watch(2.0).estimate(40.0, parts.append)
    assert (found.blocks, found.of_blocks, found.whole_s) == (20, 180, 360.0)
    assert parts == sorted(parts)
    assert parts[-1] == 1.0
    assert found.work is not None
    assert found.work.value == pytest.approx(0.76)
    assert found.lent_node_hours.value == pytest.approx(900.0)
    assert found.useful_node_hours.value == pytest.approx(630.0)


def test_on_a_slow_machine_there_are_still_enough_blocks_for_an_interval() -> None:
    assert Watch(100.0).estimate(40.0).blocks == MIN_BLOCKS


def test_a_log_that_is_replayed_as_soon_is_not_estimated() -> None:
    assert Watch(0.1).estimate(40.0) is None
