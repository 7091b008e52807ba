"""Samplers that divide samples among ranks: found, put together for all ranks, divided by the world as it is."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Iterator
from typing import Any

import torch
from torch.utils.data import BatchSampler, DataLoader, DistributedSampler

from freetrain.elastic.data.drawing import KEPT_OPTIONS


def divided_by(loader: DataLoader[Any]) -> Any:
    """The loader's sampler if it divides samples among ranks, as torch's DistributedSampler does."""
    batches: Any = loader.batch_sampler
    # Batches of a class of the script's may be of any size, and have any order.
    sampler = batches.sampler if type(batches) is BatchSampler else None
    return sampler if hasattr(sampler, "num_replicas") and hasattr(sampler, "rank") else None


def batches_of_all(loader: DataLoader[Any]) -> DataLoader[Any]:
    """A loader whose batches are those of all ranks of its sampler together."""
    sampler = divided_by(loader)
    return _with_samples(loader, WholeOrder(sampler), sampler.num_replicas)


def part_of(loader: DataLoader[Any], rank: int, size: int) -> DataLoader[Any]:
    """The loader with this rank's part in a world of this size, if it divides samples among ranks."""
    sampler = divided_by(loader)
    if sampler is None:
        return loader
    if isinstance(sampler, DistributedSampler):
        epoch = sampler.epoch
        # Torch's constructor computes the lengths that follow from rank and size; it also begins with epoch 0.
        DistributedSampler.__init__(
            sampler, sampler.dataset, size, rank, sampler.shuffle, sampler.seed, sampler.drop_last
        )
        sampler.epoch = epoch
        return loader
    ids = list(WholeOrder(sampler))
    # As many samples on each rank, as samplers have it.
    ids += itertools.islice(itertools.cycle(ids), -len(ids) % size)
    return _with_samples(loader, ids[rank::size])


def _with_samples(loader: DataLoader[Any], samples: Any, ranks: int = 1) -> DataLoader[Any]:
    """The same loader with other samples, and batches of so many ranks together."""
    options = {name: getattr(loader, name) for name in KEPT_OPTIONS}
    # Of the batches' sampler: the loader has no sizes of its own where the script gave it one.
    batches: Any = loader.batch_sampler
    size, drop_last = batches.batch_size * ranks, batches.drop_last
    return DataLoader(loader.dataset, size, sampler=samples, drop_last=drop_last, **options)


class WholeOrder(torch.utils.data.Sampler[int]):
    """The samples of all ranks of a sampler that divides them, one of each rank at a time.

    A batch of all ranks is one piece of this order.
    """

    def __init__(self, sampler: Any) -> None:
        self._ranks = [copy.copy(sampler) for _ in range(sampler.num_replicas)]
        for rank, of_rank in enumerate(self._ranks):
            of_rank.rank = rank
        # Torch's own gives rank r of N every Nth sample from the rth on: all of them are the order of one rank.
        self._is_torchs = getattr(type(sampler), "__iter__", None) is DistributedSampler.__iter__
        if self._is_torchs:
            del self._ranks[1:]
            self._ranks[0].num_replicas, self._ranks[0].num_samples = 1, sampler.total_size

    @property
    def is_known(self) -> bool:
        """Whether the order is the same whenever it is asked for, and each rank's is one of its own."""
        orders = [list(sampler) for sampler in (self._ranks[0], *self._ranks)]
        first, *others = orders
        return self._is_torchs or (first == others[0] and first not in others[1:])

    def __len__(self) -> int:
        return sum(map(len, self._ranks))

    def __iter__(self) -> Iterator[int]:
        return itertools.chain.from_iterable(zip(*self._ranks, strict=True))

    def set_epoch(self, epoch: int) -> None:
        """Order by this epoch, if the script does that at all."""
        for sampler in self._ranks:
            if epoch_set(sampler) is not None:
                sampler.set_epoch(epoch)


def note_loader(loader: DataLoader[Any]) -> None:
    """Note a loader of the script's: the epoch that it sets is to be known also of a sampler of its own."""
    kind: Any = type(divided_by(loader))
    set_epoch = getattr(kind, "set_epoch", None)
    if set_epoch is None or hasattr(set_epoch, "notes"):
        return

    def noting(sampler: Any, epoch: int) -> None:
        set_epoch(sampler, epoch)
        sampler.epoch_of_script = epoch

    noting.notes = True  # type: ignore[attr-defined]
    kind.set_epoch = noting


def epoch_set(sampler: Any) -> int | None:
    """The epoch that the script has given ``set_epoch``; None if it does not call that."""
    epoch: int | None = getattr(sampler, "epoch_of_script", None)
    return epoch
