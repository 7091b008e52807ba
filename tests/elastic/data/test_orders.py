from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch.utils.data import DataLoader, DistributedSampler, IterableDataset, WeightedRandomSampler

from freetrain.elastic.data.batching import FixedBatch
from freetrain.elastic.data.orders import BatchOrder
from freetrain.errors import InputError

TEN = list(range(10))


def order_of(data: object, batch: FixedBatch | None = None) -> BatchOrder:
    return BatchOrder.of(data, batch, 0, shuffle=True, drop_last=False)


def test_a_data_loader_says_how_it_wants_its_batches() -> None:
    assert order_of(DataLoader(TEN, 4)) == BatchOrder(10, FixedBatch(4), shuffle=False, drop_last=False)
    shuffled = DataLoader(TEN, 4, shuffle=True, drop_last=True)
    assert order_of(shuffled) == BatchOrder(10, FixedBatch(4), shuffle=True, drop_last=True)
    assert order_of(shuffled, FixedBatch(5)).batch == FixedBatch(5)
    assert order_of(10, FixedBatch(4)) == BatchOrder(10, FixedBatch(4), shuffle=True, drop_last=False)


def test_a_sampler_gives_the_same_order_in_every_process_and_another_in_every_epoch() -> None:
    def first_epochs() -> list[list[int]]:
        order = order_of(DataLoader(TEN, 4, sampler=WeightedRandomSampler([1.0] * 10, 30)))
        assert order.samples == 30
        assert order.listed is not None
        return [list(order.listed(epoch)) for epoch in (0, 1)]

    torch.manual_seed(1)
    one = first_epochs()
    before = torch.get_rng_state()
    torch.manual_seed(2)
    assert first_epochs() == one
    assert one[0] != one[1]
    torch.manual_seed(1)
    first_epochs()
    assert torch.equal(torch.get_rng_state(), before)


class Endless(IterableDataset):
    def __iter__(self) -> Iterator[int]:
        return iter(())


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (DataLoader(Endless(), 4, num_workers=1), "the DataLoader has worker processes for iterable data"),
        (DataLoader(TEN, 4, sampler=DistributedSampler(TEN, 2, 0)), "divides the samples among ranks"),
        (Endless(), "nothing says how many samples a batch has"),
        (TEN, "nothing says how many samples a batch has"),
        (DataLoader([], 4), "the data set is empty"),
    ],
)
def test_what_cannot_be_divided_among_ranks_is_named(data: object, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        order_of(data)
