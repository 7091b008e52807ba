from __future__ import annotations

from collections import Counter

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from freetrain.elastic.data.batching import FixedBatch, Permutation, Sampler, ScaledBatch, passes_of, share_of
from freetrain.elastic.script.hooks import Resize, scale_learning_rate

HUNDRED_MILLION = 100_000_000


@given(st.integers(0, 100), st.integers(1, 20))
def test_shares_are_a_partition_of_nearly_equal_parts(count: int, world: int) -> None:
    items = list(range(count))
    shares = [share_of(items, rank, world) for rank in range(world)]
    assert [item for share in shares for item in share] == items
    assert max(map(len, shares)) - min(map(len, shares)) <= 1


@given(st.integers(0, 100), st.integers(1, 20) | st.none())
def test_passes_are_short_enough_and_at_least_one(count: int, at_most: int | None) -> None:
    passes = passes_of(list(range(count)), at_most)
    assert [item for share in passes for item in share] == list(range(count))
    assert len(passes) >= 1
    assert all(len(share) <= (at_most or count) for share in passes)


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
        if sampler.position == samples:
            sampler.end_epoch()
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


@given(st.integers(1, 5000), st.text(max_size=5))
def test_every_number_has_one_place(size: int, key: str) -> None:
    assert sorted(Permutation(size, key).places(0, size).tolist()) == list(range(size))


@pytest.mark.parametrize("size", [7, 4096, 4097, HUNDRED_MILLION, 2**59 + 1])
def test_places_are_the_same_however_they_are_asked_for(size: int) -> None:
    order, start = Permutation(size, "a"), size // 2
    stop = min(start + 1000, size)
    alone = [
        Permutation(size, "a").places(place, place + 1).item() for place in range(start, min(start + 20, stop))
    ]
    together = order.places(start, stop).tolist()
    assert together[:20] == alone
    assert len(set(together)) == stop - start
    assert all(0 <= number < size for number in together)


def test_all_shuffles_of_a_few_come_up_about_equally_often() -> None:
    found = Counter(tuple(Permutation(3, str(key)).places(0, 3).tolist()) for key in range(240))
    assert len(found) == 6
    assert max(found.values()) < 2 * min(found.values())


def test_a_shuffle_looks_random_along_itself_and_beside_another() -> None:
    places = torch.arange(60_000)
    order, other = (Permutation(len(places), key).places(0, len(places)) for key in ("0/0", "0/1"))
    for pair in ((order, places), (order[1:], order[:-1]), (order, other)):
        correlation = torch.corrcoef(torch.stack(pair).double())[0, 1]
        assert abs(correlation) < 0.02  # five times its scatter for a random shuffle


def test_steps_of_sorted_data_are_mixed_as_by_chance() -> None:
    """Ten classes that lie one after the other: the counts in steps of 60 scatter as in random draws."""
    classes = Permutation(60_000, "0/0").places(0, 60_000) // 6_000
    steps = classes.view(-1, 60)
    counts = torch.stack([(steps == number).sum(1) for number in range(10)]).double()
    assert counts.var().item() == pytest.approx(60 * 0.1 * 0.9, rel=0.05)
