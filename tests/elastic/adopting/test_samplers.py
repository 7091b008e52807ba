from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.data import BatchSampler, DataLoader, DistributedSampler

from freetrain.elastic.adopting.samplers import (
    WholeOrder,
    batches_of_all,
    divided_by,
    epoch_set,
    note_loader,
    part_of,
)


def padded(order: list[int], ranks: int) -> list[int]:
    return (order * ranks)[: -(-len(order) // ranks) * ranks]


class Repeated:
    """Each sample three times, on three ranks, as DeiT's and timm's repeated augmentation has it."""

    def __init__(self, dataset: Any, num_replicas: int, rank: int) -> None:
        self.dataset, self.num_replicas, self.rank, self.epoch = dataset, num_replicas, rank, 0

    def __len__(self) -> int:
        return -(-len(self.dataset) // self.num_replicas)

    def __iter__(self) -> Iterator[int]:
        generator = torch.Generator().manual_seed(self.epoch)
        order = torch.randperm(len(self.dataset), generator=generator).repeat_interleave(3).tolist()
        return iter(padded(order, self.num_replicas)[self.rank :: self.num_replicas][: len(self)])

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch


class Ordered(Repeated):
    """As timm's samplers for evaluation are."""

    def __iter__(self) -> Iterator[int]:
        order = padded(list(range(len(self.dataset))), self.num_replicas)
        return iter(order[self.rank :: self.num_replicas])


def loaders_of(kind: Any, samples: int, ranks: int, **options: Any) -> list[Any]:
    loaders: list[Any] = []
    for rank in range(ranks):
        sampler = kind(range(samples), ranks, rank)
        loader: Any = DataLoader(range(samples), sampler=sampler, **options)  # type: ignore[arg-type]
        note_loader(loader)
        loaders.append(loader)
    return loaders


@given(
    samples=st.integers(1, 60),
    ranks=st.integers(2, 5),
    batch=st.integers(1, 7),
    drop_last=st.booleans(),
    epoch=st.integers(0, 3),
    kind=st.sampled_from([DistributedSampler, Repeated, Ordered]),
)
def test_a_batch_of_all_ranks_has_the_samples_of_their_batches(
    samples: int, ranks: int, batch: int, drop_last: bool, epoch: int, kind: Any
) -> None:
    loaders = loaders_of(kind, samples, ranks, batch_size=batch, drop_last=drop_last)
    for loader in loaders:
        loader.sampler.set_epoch(epoch)
    together: Any = batches_of_all(loaders[0])
    together.sampler.set_epoch(epoch)
    expected = [sorted(id_ for part in parts for id_ in part.tolist()) for parts in zip(*loaders, strict=True)]
    assert [sorted(part.tolist()) for part in together] == expected


def test_the_sampler_of_plain_batches_is_found_as_in_detr() -> None:
    sampler: Any = DistributedSampler(range(20), 2, 1)
    loader: Any = DataLoader(range(20), batch_sampler=BatchSampler(sampler, 3, drop_last=True))  # type: ignore[arg-type]
    assert divided_by(loader) is sampler
    together: Any = batches_of_all(loader)
    assert (together.batch_size, len(together)) == (6, 3)
    assert divided_by(DataLoader(range(20), batch_size=3)) is None  # type: ignore[arg-type]


def test_an_epoch_is_known_where_the_script_says_it_alone() -> None:
    with_epoch, without = (loaders_of(Repeated, 9, 2)[0].sampler for _ in range(2))
    with_epoch.set_epoch(4)
    assert (epoch_set(with_epoch), epoch_set(without), epoch_set(None)) == (4, None, None)


@pytest.mark.parametrize("kind", [DistributedSampler, Ordered])
def test_other_loaders_are_divided_by_the_world_as_it_is(kind: Any) -> None:
    (loader, _) = loaders_of(kind, 10, 2)
    loader.sampler.shuffle = False
    loader.sampler.set_epoch(4)
    parts = [[int(id_) for id_ in part_of(copy.copy(loader), rank, 4)] for rank in range(4)]
    assert parts == [[0, 4, 8], [1, 5, 9], [2, 6, 0], [3, 7, 1]]
    assert loader.sampler.epoch == 4


class Shuffled(Repeated):
    def __iter__(self) -> Iterator[int]:
        return iter(torch.randperm(40).tolist()[self.rank :: self.num_replicas])


class MadeBefore(Repeated):
    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.ids = list(range(40))[self.rank :: self.num_replicas]

    def __iter__(self) -> Iterator[int]:
        return iter(self.ids)


@pytest.mark.parametrize(
    ("kind", "is_known"),
    [(DistributedSampler, True), (Repeated, True), (Shuffled, False), (MadeBefore, False)],
)
def test_an_order_that_is_another_each_time_or_follows_no_rank_is_noticed(kind: Any, is_known: bool) -> None:
    assert WholeOrder(kind(range(40), 2, 0)).is_known is is_known
