"""Estimates from some hours: where they come from, and how often the interval holds."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from math import inf

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from freetrain.core.holes import Holes
from freetrain.replay.estimate import (
    MIN_BLOCKS,
    BlockPair,
    Stratum,
    blocks_in_turn,
    estimate_daemon,
    ratio_of,
)

HOUR_S = 3600.0
DAY_S = 24 * HOUR_S


def holes_with(idle_s: Sequence[float], block_s: float) -> Holes:
    """Holes of a node that is idle for so long at the beginning of each block."""
    start_s = block_s * np.arange(len(idle_s))
    lasting = np.array(idle_s) > 0
    node = np.zeros(lasting.sum(), np.int32)
    ends_s = start_s + np.array(idle_s)
    return Holes(("n",), node, start_s[lasting], ends_s[lasting], 0.0, block_s * len(idle_s))


@given(st.lists(st.floats(0.0, 100.0), min_size=1, max_size=400), st.integers(0, 5))
def test_all_blocks_come_once_and_cover_the_log(idle_s: list[float], seed: int) -> None:
    blocks = blocks_in_turn(holes_with(idle_s, 100.0), 100.0, seed)
    assert sorted(block.from_s for block in blocks) == [100.0 * number for number in range(len(idle_s))]
    assert sum(block.until_s - block.from_s for block in blocks) == pytest.approx(100.0 * len(idle_s))
    assert sum(block.idle_s for block in blocks) == pytest.approx(sum(idle_s), abs=1e-6)


@pytest.mark.parametrize("seed", range(5))
def test_the_first_blocks_are_spread_over_the_load_the_log_and_the_day(seed: int) -> None:
    blocks = blocks_in_turn(
        holes_with([100.0 * (number * 7 % 60) for number in range(180)], 4 * HOUR_S), 4 * HOUR_S, seed
    )
    less = max(block.idle_s for block in blocks if block.stratum == 0)
    assert all(block.idle_s >= less for block in blocks if block.stratum == 1)
    assert [block.stratum for block in blocks[:MIN_BLOCKS]] == [0, 1] * (MIN_BLOCKS // 2)
    assert len({int(block.from_s // (5 * DAY_S)) for block in blocks[:24]}) == 6
    assert {int(block.from_s % DAY_S // (4 * HOUR_S)) for block in blocks[:24]} == set(range(6))


def test_a_ratio_is_exact_once_all_blocks_are_known() -> None:
    known = ratio_of([Stratum([1.0, 2.0], [2.0, 4.0], 2)])
    assert (known.value, known.within) == (0.5, 0.0)
    assert ratio_of([Stratum([1.0], [2.0], 2)]).within == inf
    assert ratio_of([Stratum([1.0, 1.0], [2.0, 2.0], 2, 3.0), Stratum([1.0], [1.0], 1, 1.0)]).value == 0.625


def test_the_interval_holds_nineteen_times_in_twenty() -> None:
    draw = random.Random(3)
    wholes = sorted(draw.lognormvariate(0.0, 1.0) for _ in range(200))
    parts = [whole * draw.uniform(0.6, 1.0) for whole in wholes]
    true = sum(parts) / sum(wholes)
    holds = 0
    for _ in range(400):
        strata = [
            Stratum(
                [parts[at] for at in some],
                [wholes[at] for at in some],
                len(every),
                sum(wholes[at] for at in every),
            )
            for every in (range(100), range(100, 200))
            for some in (draw.sample(every, 10),)
        ]
        found = ratio_of(strata)
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
        holes = holes_with([HOUR_S] * 180, 4 * HOUR_S)
        return estimate_daemon(holes, allowed, self.replay_block, budget_s, lambda: self.now_s, progress)


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
