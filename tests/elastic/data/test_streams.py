from __future__ import annotations

import random
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

from freetrain.elastic.data.batching import FixedBatch, Sampler
from freetrain.elastic.data.orders import BatchOrder
from freetrain.elastic.data.streams import (
    OwnBatches,
    Streaming,
    is_stream,
    makes_own_batches,
    same_random_numbers,
)
from freetrain.elastic.worlds.world import World
from freetrain.errors import InputError

NUMBERS = TensorDataset(torch.arange(23), torch.arange(23) * 10)


class Plain:
    """The numbers below ten, in order; counts what is read."""

    def __init__(self) -> None:
        self.reads = 0

    def __iter__(self) -> Any:
        for number in range(10):
            self.reads += 1
            yield number


class Stateful(Plain):
    """Goes on where it is told to, once."""

    def __init__(self) -> None:
        super().__init__()
        self.place = self.start = 0

    def __iter__(self) -> Any:
        start, self.start = self.start, 0
        for self.place in range(start + 1, 11):
            self.reads += 1
            yield self.place - 1

    def state_dict(self) -> dict[str, int]:
        return {"place": self.place}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.start = state["place"]


class Rank:
    """One rank's side, in worlds of two."""

    def __init__(self, data: Any, rank: int) -> None:
        self.data = data
        self.sampler = Sampler(1 << 62, 2, shuffle=False)
        self.streaming = Streaming(data, self.sampler, FixedBatch(4))
        self.world = cast(World, SimpleNamespace(rank=rank, size=2))

    def take(self) -> list[int] | None:
        drawn = self.streaming.next(self.world)
        return None if drawn is None else drawn[1].tolist()

    def complete(self) -> None:
        self.sampler.advance(self.streaming.samples)
        self.streaming.forget_step()

    def join(self, other: Rank) -> None:
        self.sampler.load_state_dict(other.sampler.state_dict())
        self.streaming.load_state_dict(other.streaming.state_dict())
        for reader in (self, other):
            reader.streaming.restart()


@pytest.mark.parametrize("kind", [Plain, Stateful])
def test_each_rank_keeps_its_share_and_a_lost_step_is_read_again(kind: type[Plain]) -> None:
    rank = Rank(kind(), 1)
    assert rank.take() == [2, 3]
    rank.complete()
    assert rank.take() == [6, 7]
    before = rank.streaming.state_dict()  # as it is carried along while the step is under way
    assert rank.take() == [9]
    rank.streaming.forget_step()
    rank.streaming.load_state_dict(before)
    rank.streaming.restart()
    assert rank.take() == [6, 7]
    rank.complete()
    assert rank.take() == [9]
    rank.complete()
    assert rank.take() is None
    rank.sampler.end_epoch()
    rank.streaming.restart()
    assert rank.take() == [2, 3]


@pytest.mark.parametrize(("kind", "reads"), [(Plain, 8), (Stateful, 4)])
def test_who_joins_goes_on_where_the_others_are(kind: type[Plain], reads: int) -> None:
    old, new = Rank(kind(), 0), Rank(kind(), 1)
    old.take()
    old.complete()
    new.join(old)
    assert (old.take(), new.take()) == ([4, 5], [6, 7])
    assert new.data.reads == reads


def test_who_joins_at_the_end_of_an_epoch_finds_nothing_more_in_it() -> None:
    old, new = Rank(Stateful(), 0), Rank(Stateful(), 1)
    while old.take():
        old.complete()
    new.join(old)
    assert (old.take(), new.take()) == (None, None)


def test_what_has_items_is_no_stream() -> None:
    assert is_stream(Plain())
    assert not is_stream([1, 2])
    assert not is_stream(10)


class Doubling(DataLoader[Any]):
    """A loader whose own ``__iter__`` changes its batches."""

    def __iter__(self) -> Any:
        for numbers, tens in super().__iter__():
            yield numbers * 2, tens


class Buckets:
    """Batches of different sizes, in another order in each epoch."""

    def __init__(self) -> None:
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __iter__(self) -> Any:
        batches = [[0, 1, 2], [3, 4], list(range(5, 23))]
        yield from batches[self.epoch :] + batches[: self.epoch]

    def __len__(self) -> int:
        return 3


class Ready(IterableDataset[Any]):
    """Batches that are made already, as webdataset's loaders give them."""

    def __iter__(self) -> Any:
        for first in range(0, 20, 5):
            yield {
                "number": torch.arange(first, first + 5),
                "name": [f"n{number}" for number in range(first, first + 5)],
            }


class Noisy(TensorDataset):
    """Draws random numbers for each sample, as augmentations do."""

    def __getitem__(self, index: int) -> Any:
        return self.tensors[0][index], torch.rand(()) + random.random()


class OwnReader:
    """One rank's reading."""

    def __init__(self, data: Any, rank: int, size: int, epoch: int = 0, batches: int = 0) -> None:
        self.sampler = Sampler(1 << 62, 9, 7)
        self.sampler.epoch, self.sampler.batches = epoch, batches
        self.batches = OwnBatches(data, self.sampler, 7)
        self.world: Any = SimpleNamespace(rank=rank, size=size)
        self.marks: list[int] = []

    def read(self) -> list[Any]:
        found = []
        while (drawn := self.batches.next(self.world)) is not None:
            draw, batch = drawn
            found.append((batch, list(draw.mine)))
            self.marks.append(self.batches.mark)
            self.sampler.advance(len(draw.ids))
            self.batches.forget_step()
        return found


def together(make: Callable[[], Any], size: int, take: Callable[[Any], Any], **place: int) -> list[list[int]]:
    """What all ranks have of each batch."""
    ranks = [OwnReader(make(), rank, size, **place) for rank in range(size)]
    read = [rank.read() for rank in ranks]
    assert all(rank.marks == ranks[0].marks for rank in ranks)
    return [
        [int(value) for batch, mine in parts for value in (take(batch) if mine else ())]
        for parts in zip(*read, strict=True)
    ]


def first_of(batch: Any) -> Any:
    return batch[0]


@pytest.mark.parametrize("size", [1, 2, 3])
def test_an_iter_of_the_loaders_own_is_heeded(size: int) -> None:
    loader = Doubling(NUMBERS, 5)
    assert makes_own_batches(loader)
    assert together(lambda: loader, size, first_of) == [
        [2 * i for i in range(a, min(a + 5, 23))] for a in range(0, 23, 5)
    ]


@pytest.mark.parametrize("size", [1, 2])
def test_a_sampler_of_batches_is_heeded_in_each_epoch(size: int) -> None:
    def make() -> Any:
        return DataLoader(NUMBERS, batch_sampler=Buckets())

    assert together(make, size, first_of) == [[0, 1, 2], [3, 4], list(range(5, 23))]
    assert together(make, size, first_of, epoch=1) == [[3, 4], list(range(5, 23)), [0, 1, 2]]


def test_who_comes_in_the_middle_of_an_epoch_reads_what_is_left_of_it() -> None:
    def make() -> Any:
        return Doubling(NUMBERS, 5, shuffle=True)

    whole = together(make, 2, first_of)
    assert together(make, 3, first_of, batches=2) == whole[2:]
    assert together(make, 2, first_of, epoch=1) != whole


def test_loaders_that_are_given_together_are_divided_alike() -> None:
    def make() -> Any:
        return [DataLoader(NUMBERS, 5, shuffle=True), DataLoader(NUMBERS, 5, shuffle=True)]

    for place in (0, 1):
        found = together(make, 2, lambda pair, place=place: pair[place][0])
        assert sorted(value for batch in found for value in batch) == list(range(23))


def test_batches_that_come_ready_are_divided_in_all_their_parts() -> None:
    loader = DataLoader(Ready(), batch_size=None)
    assert makes_own_batches(loader)
    assert together(lambda: loader, 2, lambda batch: batch["number"]) == [
        list(range(a, a + 5)) for a in range(0, 20, 5)
    ]
    ((batch, _), *_) = OwnReader(loader, 1, 2).read()
    assert batch["name"] == ["n2", "n3", "n4"]


def test_random_numbers_of_the_loader_are_the_same_on_all_ranks_and_the_trainings_own_stay() -> None:
    torch.manual_seed(3)
    expected = torch.rand(())
    torch.manual_seed(3)
    loader = Doubling(Noisy(torch.arange(23)), 5, shuffle=True)
    assert together(lambda: loader, 2, first_of)
    assert torch.rand(()) == expected


def test_ranks_that_read_other_batches_are_told_apart() -> None:
    one, other = (
        OwnReader(Doubling(NUMBERS, 5), 0, 2),
        OwnReader(Doubling(TensorDataset(torch.arange(1, 24), torch.arange(23)), 5), 1, 2),
    )
    one.read(), other.read()
    assert one.marks[0] != other.marks[0]


def test_what_has_no_rows_is_refused() -> None:
    with pytest.raises(InputError, match="where rows are needed"):
        OwnReader(DataLoader(TensorDataset(torch.arange(3)), batch_size=None, collate_fn=lambda _: 5), 0, 1).read()


def test_a_batch_beside_batches_of_the_loaders_own_is_refused() -> None:
    with pytest.raises(InputError, match="makes its own batches"):
        BatchOrder.of(
            DataLoader(NUMBERS, batch_sampler=Buckets()), FixedBatch(4), 0, shuffle=True, drop_last=False
        )


def test_a_loader_that_fails_leaves_the_random_numbers_as_they_were() -> None:
    random.seed(3)
    next_number = random.Random(3).random()
    with pytest.raises(OSError, match="gone"), same_random_numbers(1):
        raise OSError("gone")
    assert random.random() == next_number
