"""Batches of data that can only be read in order: every rank reads all of it, and keeps its share."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

from torch.utils.data import DataLoader, IterableDataset, default_collate

from freetrain.elastic.data.batching import FixedBatch, ScaledBatch, share_of
from freetrain.elastic.data.sampler import Sampler
from freetrain.elastic.data.step_batches import Draw, StepBatches
from freetrain.elastic.worlds.world import World


def is_stream(data: Any) -> bool:
    """Whether its samples cannot be asked for by number."""
    data = data.dataset if isinstance(data, DataLoader) else data
    return isinstance(data, IterableDataset) or not (isinstance(data, int) or hasattr(data, "__getitem__"))


class Streaming(StepBatches):
    """Batches of samples that come one after the other.

    The data's place moves with the model: by the data's own ``state_dict`` and ``load_state_dict`` if it has them,
    or else by reading again, from the start of the epoch, what has been read in it.

    Args:
        data: an iterable that begins anew with each epoch, or a DataLoader of one without worker processes.
        sampler: counts.
        batch: samples per batch.
    """

    def __init__(self, data: Any, sampler: Sampler, batch: FixedBatch | ScaledBatch) -> None:
        super().__init__(data.dataset if isinstance(data, DataLoader) else data, sampler, batch)
        self._collate: Callable[[list[Any]], Any] = default_collate
        if isinstance(data, DataLoader):
            self._collate = data.collate_fn
        self._is_stateful = hasattr(self.dataset, "state_dict") and hasattr(self.dataset, "load_state_dict")
        self._iterator: Iterator[Any] = iter(())
        self._before: dict[str, Any] = {}
        self._is_stale = True
        self._has_read = False

    # -- what is carried along

    def state_dict(self) -> dict[str, Any]:
        """Where the data stands before the step under way."""
        knows = self._is_stateful and self._has_read and not self.taken
        return dict(self.dataset.state_dict()) if knows else self._before

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from there."""
        self._before = state_dict
        self._is_stale = True
        self._has_read = False

    # -- batches

    def restart(self) -> None:
        """The world, the epoch or the position is another one."""
        self._before = self.state_dict()
        self._is_stale = True
        self._has_read = False

    def next(self, world: World) -> tuple[Draw, Any] | None:
        """One batch more for the step under way; None at the end of the epoch."""
        asked_s = time.perf_counter()
        if self._is_stale:
            self._begin()
        if not self.taken:
            self._before = self.state_dict()
        wanted = self._batch.per_step(world.size)
        items = list(islice(self._iterator, wanted))
        self._has_read = bool(items)
        self.is_at_end = not items or (self._sampler.drop_last and len(items) < wanted)
        if self.is_at_end:
            return None
        place = self._sampler.position + self.samples
        ids = range(place, place + len(items))
        draw = Draw(ids, share_of(ids, world.rank, world.size))
        self.taken.append(draw)
        batch = self._collate([items[id_ - place] for id_ in draw.fetched])
        self.wait_s += time.perf_counter() - asked_s
        return draw, batch

    def batches_per_epoch(self, world_size: Callable[[], int]) -> int:
        """Nobody knows before the end."""
        raise TypeError("data that can only be read in order has no length")

    def close(self) -> None:
        """Read no more."""
        self._iterator = iter(())

    def _begin(self) -> None:
        """Read from the training's position on."""
        position = self._sampler.position
        if hasattr(self.dataset, "set_epoch"):
            self.dataset.set_epoch(self._sampler.epoch)
        if position and self._is_stateful:
            self.dataset.load_state_dict(self._before)
        self._iterator = iter(self.dataset)
        if not self._is_stateful:
            next(islice(self._iterator, position, position), None)
        self._is_stale = False
