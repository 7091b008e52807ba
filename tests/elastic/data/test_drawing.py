from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch
from torch.utils.data import DataLoader

from freetrain.elastic.data.batching import FixedBatch
from freetrain.elastic.data.drawing import BatchStream, Drawing
from freetrain.elastic.data.sampler import Sampler
from freetrain.elastic.data.step_batches import Draw
from freetrain.elastic.worlds.world import World


def world(rank: int, size: int) -> World:
    return cast(World, SimpleNamespace(rank=rank, size=size))


def drawing(data: Any, batch: int = 4, **options: bool) -> tuple[Drawing, Sampler]:
    sampler = Sampler(10, 2, shuffle=False, holds_at_end=True, **options)
    return Drawing(sampler, FixedBatch(batch), BatchStream(data)), sampler


def test_each_rank_gets_its_share_until_the_epoch_ends() -> None:
    drawn, sampler = drawing(10)
    batches = []
    while (taken := drawn.next(world(1, 2))) is not None:
        draw, ids = taken
        batches.append((drawn.number, ids.tolist(), draw.weight))
        sampler.advance(drawn.samples)
        drawn.forget_step()
    assert batches == [(0, [2, 3], 0.5), (1, [6, 7], 0.5), (2, [9], 0.5)]
    assert (sampler.epoch, sampler.position) == (0, 10)


def test_a_rank_without_samples_repeats_one_that_counts_nothing() -> None:
    draw = Draw([5], [])
    assert (draw.fetched, draw.weight) == ([5], 0.0)


@pytest.mark.parametrize("workers", [0, 1])
def test_a_step_that_is_taken_back_begins_with_the_same_samples_in_another_world(workers: int) -> None:
    loader = DataLoader(
        torch.arange(10), 4, num_workers=workers, collate_fn=sorted, persistent_workers=workers > 0
    )
    drawn, sampler = drawing(loader)
    drawn.next(world(0, 2))
    sampler.advance(drawn.samples)
    drawn.forget_step()
    for _ in range(2):
        drawn.next(world(0, 2))
    assert (drawn.number, drawn.samples) == (2, 6)
    drawn.forget_step()
    drawn.restart()
    taken = drawn.next(world(0, 1))
    assert taken is not None
    assert [int(value) for value in taken[1]] == [4, 5, 6, 7]
    assert drawn.number == 1
    assert drawn.batches_per_epoch(1) == 3


def test_a_short_batch_at_the_end_is_left_out_if_asked_for() -> None:
    drawn, _ = drawing(10, drop_last=True)
    assert drawn.batches_per_epoch(1) == 2
    assert [taken is not None for taken in (drawn.next(world(0, 1)) for _ in range(3))] == [True, True, False]
