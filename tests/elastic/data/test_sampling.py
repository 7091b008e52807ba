from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from freetrain.elastic.data.batching import FixedBatch, ScaledBatch, passes_of, share_of
from freetrain.elastic.data.sampler import Sampler
from freetrain.elastic.script.hooks import Resize, scale_learning_rate


@given(st.integers(0, 100), st.integers(1, 20))
def test_shares_are_a_partition_of_nearly_equal_parts(count: int, world: int) -> None:
    items = list(range(count))
    shares = [share_of(items, rank, world) for rank in range(world)]
    assert [item for share in shares for item in share] == items
    assert max(map(len, shares)) - min(map(len, shares)) <= 1


@given(st.integers(0, 100), st.integers(1, 20) | st.none())
def test_passes_are_short_enough_and_at_least_one(count: int, at_most: int | None) -> None:
    passes = passes_of(list(range(count)), at_most)
    assert [item for one in passes for item in one] == list(range(count))
    assert len(passes) >= 1
    assert all(len(one) <= (at_most or count) for one in passes)


@given(st.integers(1, 200), st.lists(st.integers(1, 64), min_size=1), st.integers(0, 5))
def test_every_sample_once_per_epoch_whatever_the_steps(samples: int, sizes: list[int], seed: int) -> None:
    sampler = Sampler(samples, epochs=2, seed=seed)
    epochs: dict[int, list[int]] = {0: [], 1: []}
    turn = 0
    while not sampler.finished:
        if turn % 3 == 2:  # a new process takes over
            successor = Sampler(samples, epochs=2, seed=99)
            successor.load_state_dict(sampler.state_dict())
            sampler = successor
        ids = sampler.peek(sizes[turn % len(sizes)])
        epochs[sampler.epoch] += ids
        sampler.advance(len(ids))
        turn += 1
    assert all(sorted(ids) == list(range(samples)) for ids in epochs.values())


def test_batches_and_learning_rates() -> None:
    assert [FixedBatch(64).per_step(world) for world in (1, 4)] == [64, 64]
    assert [ScaledBatch(16).per_step(world) for world in (1, 4)] == [16, 64]
    optimizer = torch.optim.SGD([torch.zeros(1)], lr=0.1)
    scale_learning_rate(optimizer, at_batch=16)(Resize(1, 4, 16, 64))
    assert optimizer.param_groups[0]["lr"] == pytest.approx(0.4)


@given(st.integers(1, 200), st.integers(1, 64), st.integers(0, 5))
def test_what_is_not_enough_for_a_step_is_left_out(samples: int, per_step: int, seed: int) -> None:
    sampler = Sampler(samples, epochs=1, seed=seed, drop_last=True)
    seen: list[int] = []
    while not sampler.finished and (ids := sampler.peek(per_step)):
        assert len(ids) == per_step
        seen += ids
        sampler.advance(per_step)
    assert len(seen) == len(set(seen)) == samples // per_step * per_step


def test_a_position_far_into_a_huge_data_set_costs_neither_time_nor_memory() -> None:
    sampler = Sampler(10**12, epochs=1)
    sampler.load_state_dict({"epoch": 0, "position": 5 * 10**11, "seed": 3})
    ids = sampler.peek(64, skip=64)
    assert len(set(ids)) == 64
    assert all(0 <= id_ < 10**12 for id_ in ids)


def test_without_shuffling_the_order_is_that_of_the_data_set() -> None:
    sampler = Sampler(20_000, epochs=1, shuffle=False)
    sampler.advance(10_000)
    assert sampler.peek(3, skip=2) == [10_002, 10_003, 10_004]
