"""Orders of batches: the batches that a script wants of its data, by its DataLoader."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils.data import DataLoader, RandomSampler, SequentialSampler

from freetrain.elastic.data.batching import FixedBatch, Sampler, ScaledBatch, StepBatches
from freetrain.elastic.data.drawing import DrawnBatches
from freetrain.elastic.data.streams import OwnBatches, Streaming, is_stream, makes_own_batches, same_random_numbers
from freetrain.errors import InputError

# Samples of data whose length is not known.
_ENDLESS = 1 << 62


@dataclass(frozen=True, slots=True)
class BatchOrder:
    """Order and size of the batches that the script wants of its data."""

    samples: int  # in an epoch; of data that can only be read in order, more than there ever are
    batch: FixedBatch | ScaledBatch  # samples per batch
    shuffle: bool  # whether in another order in each epoch
    drop_last: bool  # whether without what is not enough for a batch
    listed: Callable[[int], Sequence[int]] | None = None  # the order of an epoch, where the script has a sampler
    has_own_batches: bool = False  # the script's loader makes the batches, which are then read in order

    def sampler(self, epochs: int, seed: int) -> Sampler:
        """Samples in this order, for a script that says itself when an epoch ends."""
        shuffle, drop_last, listed = self.shuffle, self.drop_last, self.listed
        return Sampler(self.samples, epochs, seed, shuffle=shuffle, drop_last=drop_last, listed=listed)

    def read(self, data: Any, sampler: Sampler) -> StepBatches:
        """The batches of each step."""
        if self.has_own_batches:
            return OwnBatches(data, sampler, sampler.seed)
        if is_stream(data):
            return Streaming(data, sampler, self.batch)
        return DrawnBatches(data, sampler, self.batch)

    @classmethod
    def of(
        cls, data: Any, batch: FixedBatch | ScaledBatch | None, seed: int, *, shuffle: bool, drop_last: bool
    ) -> BatchOrder:
        """The order by the script's DataLoader, or by these arguments; raises InputError if there is none."""
        if batch is not None and batch.at_most_per_pass is not None:
            raise InputError(
                "at_most_per_pass has no meaning where the script makes the passes.",
                "Take several smaller batches before each optimizer.step().",
            )
        if (
            isinstance(data, DataLoader)
            and data.batch_size is None
            and data.sampler is not None
            and batch is not None
        ):
            raise InputError(
                "the DataLoader makes its own batches, and batch=... says otherwise what a batch is.",
                "Leave out batch=..., so that batches are as the loader makes them, or give it a batch_size.",
            )
        if makes_own_batches(data) and batch is None:
            return cls(_ENDLESS, FixedBatch(1), shuffle=False, drop_last=False, has_own_batches=True)
        if is_stream(data):
            return cls._of_stream(data, batch, drop_last=drop_last)
        if not isinstance(data, DataLoader):
            samples = _checked(data if isinstance(data, int) else len(data))
            return cls(samples, _known(batch), shuffle, drop_last)
        batch = batch or FixedBatch(data.batch_size or 1)
        sampler: Any = data.sampler
        dataset: Any = data.dataset
        # Torch's own type and no subclass, which may draw otherwise.
        is_plain = type(sampler) is RandomSampler and not sampler.replacement and len(sampler) == len(dataset)
        if type(sampler) is SequentialSampler or is_plain:
            samples = _checked(len(dataset))
            return cls(samples, batch, shuffle=is_plain, drop_last=data.drop_last)
        if hasattr(sampler, "num_replicas"):
            raise InputError(
                "the DataLoader has a sampler that divides the samples among ranks, which the runtime does.",
                "Leave the sampler out; shuffle=True is enough.",
            )
        listed = _Listed(sampler, seed)
        return cls(_checked(len(sampler)), batch, shuffle=True, drop_last=data.drop_last, listed=listed)

    @classmethod
    def _of_stream(cls, data: Any, batch: FixedBatch | ScaledBatch | None, *, drop_last: bool) -> BatchOrder:
        if isinstance(data, DataLoader):
            if data.num_workers:
                raise InputError(
                    "the DataLoader has worker processes for iterable data, which mix the orders they read in.",
                    "Use num_workers=0, or a data set with length and items.",
                )
            batch = batch or (FixedBatch(data.batch_size) if data.batch_size else None)
            drop_last = data.drop_last
        return cls(_ENDLESS, _known(batch), shuffle=False, drop_last=drop_last)


class _Listed:
    """The order of a sampler of the script's: the same one in all processes, whenever they ask."""

    def __init__(self, sampler: Any, seed: int) -> None:
        self._sampler = sampler
        self._seed = seed
        self._epoch = -1
        self._ids: list[int] = []

    def __call__(self, epoch: int) -> Sequence[int]:
        # Kept for the epoch: pieces of the order are asked for one by one, and listing a sampler may take seconds.
        if epoch == self._epoch:
            return self._ids
        if hasattr(self._sampler, "set_epoch"):
            self._sampler.set_epoch(epoch)
        with same_random_numbers(self._seed, epoch):
            # A generator of the sampler's own would go on from where this process has left it.
            if getattr(self._sampler, "generator", None) is not None:
                self._sampler.generator.manual_seed(torch.initial_seed())
            ids = [int(id_) for id_ in self._sampler]
        if len(ids) != len(self._sampler):
            raise InputError(
                f"the sampler has a length of {len(self._sampler)}, and epoch {epoch} has {len(ids)} samples.",
                "All epochs have to be as long as the sampler says.",
            )
        self._epoch, self._ids = epoch, ids
        return ids


def _known(batch: FixedBatch | ScaledBatch | None) -> FixedBatch | ScaledBatch:
    if batch is None:
        raise InputError(
            "nothing says how many samples a batch has.",
            "For example batch=FixedBatch(64); where it gives whole batches, DataLoader(data, batch_size=None).",
        )
    return batch


def _checked(samples: int) -> int:
    if samples < 1:
        raise InputError("the data set is empty: there is nothing to train on.")
    return samples
