from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch
from torch.utils.data import DataLoader

from freetrain.elastic.data.batching import Draw, FixedBatch, Sampler
from freetrain.elastic.data.drawing import Drawing, DrawnBatches, Loader
from freetrain.elastic.worlds.world import World


def world(rank: int, size: int) -> World:
    return cast(World, SimpleNamespace(rank=rank, size=size))


def drawing(data: Any, batch: int = 4, **options: bool) -> tuple[Drawing, Sampler]:
    sampler = Sampler(10, 2, shuffle=False, **options)
    return DrawnBatches(data, sampler, FixedBatch(batch)), sampler


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


class Squares:
    """Notes which thread asked for what."""

    def __init__(self) -> None:
        self.asked: list[tuple[int, str]] = []

    def __getitem__(self, id_: int) -> int:
        self.asked.append((id_, threading.current_thread().name))
        if id_ < 0:
            raise ValueError(f"no sample {id_}")
        return id_ * id_


def test_the_next_batches_are_fetched_meanwhile_and_once_only() -> None:
    data = Squares()
    loader = Loader(data, threads=1)
    loader.prepare([[1, 2], [3]])
    assert loader.get([1, 2]).tolist() == [1, 4]
    loader.prepare([[3], [4]])
    assert loader.get([3]).tolist() == [9]
    assert loader.get([4]).tolist() == [16]
    loader.close()
    assert [id_ for id_, _ in data.asked] == [1, 2, 3, 4]
    assert all(name.startswith("freetrain-loader") for _, name in data.asked)


class AllAtOnce:
    """Gives nobody anything before so many have asked."""

    def __init__(self, threads: int) -> None:
        self.barrier = threading.Barrier(threads, timeout=120)

    def __getitem__(self, id_: int) -> int:
        self.barrier.wait()
        return id_


def test_all_threads_fetch_parts_of_one_batch_at_once() -> None:
    loader = Loader(AllAtOnce(8), threads=8)
    loader.prepare([list(range(16))])
    assert loader.get(list(range(16))).tolist() == list(range(16))
    loader.close()


def test_what_is_forgotten_is_fetched_no_further() -> None:
    data = Squares()
    loader = Loader(data, threads=1)
    hold = threading.Event()
    loader._pool.submit(hold.wait)
    loader.prepare([[1, 2], [3]])
    loader.prepare([[3]])
    hold.set()
    assert loader.get([3]).tolist() == [9]
    assert [id_ for id_, _ in data.asked] == [3]
    loader.close()


def test_what_was_not_prepared_is_fetched_at_once() -> None:
    data = Squares()
    loader = Loader(data, threads=1)
    loader.prepare([[1]])
    assert loader.get([5]).tolist() == [25]
    assert "MainThread" in {name for id_, name in data.asked if id_ == 5}


def test_without_threads_nothing_is_fetched_ahead() -> None:
    data = Squares()
    loader = Loader(data, threads=0)
    loader.prepare([[1], [2]])
    assert data.asked == []
    assert loader.get([2]).tolist() == [4]


def test_an_error_of_the_data_set_is_raised_where_its_batch_is_asked_for() -> None:
    loader = Loader(Squares(), threads=1)
    loader.prepare([[-1]])
    with pytest.raises(ValueError, match="no sample -1"):
        loader.get([-1])


def test_a_number_of_samples_yields_their_ids() -> None:
    loader = Loader(10)
    loader.prepare([[1, 2], []])
    assert torch.equal(loader.get([1, 2]), torch.tensor([1, 2]))
