"""Batches of samples that can be asked for by number: fetched by the script's DataLoader, or by threads."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import torch
from torch.utils.data import DataLoader, default_collate

from freetrain.elastic.data.batching import (
    Draw,
    FixedBatch,
    Sampler,
    ScaledBatch,
    StepBatches,
    passes_of,
    share_of,
)
from freetrain.elastic.worlds.world import World
from freetrain.errors import InputError

KEPT_OPTIONS = (
    "num_workers",
    "collate_fn",
    "pin_memory",
    "timeout",
    "worker_init_fn",
    "multiprocessing_context",
    "prefetch_factor",
    "persistent_workers",
)
"""Options of the script's DataLoader that are kept; the samples of its batches are decided here."""

Passes = Sequence[Sequence[int]]
Ids = tuple[int, ...]


class Drawing(StepBatches):
    """Batches of samples that can be asked for by number."""

    def batches_per_epoch(self, world_size: Callable[[], int]) -> int:
        """Number of batches in this epoch, if the world does not change."""
        sampler = self._sampler
        per_batch = self.batch.samples if isinstance(self.batch, FixedBatch) else self.batch.per_step(world_size())
        left = sampler.samples - sampler.position
        return sampler.batches + (left // per_batch if sampler.drop_last else -(-left // per_batch))

    def _draws(self, world: World) -> Iterator[Draw]:
        """The rest of the epoch; asked for ahead of the training, whose position moves meanwhile."""
        sampler = self._sampler
        start, per_batch = sampler.position, self.batch.per_step(world.size)
        if sampler.drop_last and sampler.samples < per_batch:
            raise InputError(
                f"a step takes {per_batch} samples, and an epoch has only {sampler.samples}: with drop_last=True "
                "nothing is left to train on.",
                "Take smaller steps, or do without drop_last.",
            )
        while ids := sampler.peek(per_batch, skip=start - sampler.position):
            yield Draw(ids, share_of(ids, world.rank, world.size))
            start += len(ids)


class DrawnBatches(Drawing):
    """Batches as the script's DataLoader would fetch them; of a number of samples the ids themselves."""

    def __init__(self, data: Any, sampler: Sampler, batch: FixedBatch | ScaledBatch) -> None:
        dataset = data.dataset if isinstance(data, DataLoader) else range(data) if isinstance(data, int) else data
        super().__init__(dataset, sampler, batch)
        options = {name: getattr(data, name) for name in KEPT_OPTIONS} if isinstance(data, DataLoader) else {}
        self._generator = torch.Generator()
        self._plan = _BatchPlan()
        self._loader: DataLoader[Any] = DataLoader(
            self.dataset, batch_sampler=self._plan, generator=self._generator, **options
        )
        self._restarts = 0

    def _begin(self, world: World) -> None:
        self._restarts += 1
        # Workers draw random numbers of their own from this, others after each restart, or augmentations would be
        # repeated; the training's own stream is left as it is.
        self._generator.manual_seed((torch.initial_seed() + self._restarts) % (1 << 63))
        self._plan.begin(self._draws(world))
        # First of all: the old iterator's worker processes end before the new one's start.
        self._iterator = iter(())
        self._iterator = iter(self._loader)

    def _take(self, world: World) -> tuple[Draw, Any] | None:
        try:
            data = next(self._iterator)
        except StopIteration:
            return None
        self.taken.append(self._plan.fetched.popleft())
        return self.taken[-1], data


class _BatchPlan:
    """The sampler of batches for the DataLoader."""

    def __init__(self) -> None:
        self.fetched: deque[Draw] = deque()
        self._draws: Iterator[Draw] = iter(())

    def begin(self, draws: Iterator[Draw]) -> None:
        self._draws, self.fetched = draws, deque()

    def __iter__(self) -> Iterator[list[int]]:
        # An iterator that is left over goes on with what it began with, and does not touch the next one's.
        draws, fetched = self._draws, self.fetched
        for draw in draws:
            fetched.append(draw)
            yield draw.fetched


class DrawnPasses(Drawing):
    """Samples of each batch, in passes of at most so many, while threads fetch the batch after it."""

    def __init__(
        self, loader: Loader, sampler: Sampler, batch: FixedBatch | ScaledBatch, at_most: int | None
    ) -> None:
        data = loader.data
        super().__init__(range(data) if isinstance(data, int) else data, sampler, batch)
        self._loader = loader
        self._at_most = at_most
        self._ahead: Draw | None = None

    def _begin(self, world: World) -> None:
        self._iterator = self._draws(world)
        self._ahead = next(self._iterator, None)

    def _take(self, world: World) -> tuple[Draw, Passes] | None:
        """The next batch and its passes, of which one without samples has no data of its own; None at the end."""
        draw, self._ahead = self._ahead, None
        if draw is None:
            return None
        self.taken.append(draw)
        self._ahead = next(self._iterator, None)
        passes = passes_of(draw.mine, self._at_most)
        self._loader.prepare([*passes, *(passes_of(self._ahead.mine, self._at_most) if self._ahead else ())])
        return draw, passes

    def close(self) -> None:
        """Fetch no more."""
        self._loader.close()


class Loader:
    """Turns sample ids into batches.

    Args:
        data: anything with items, or a number: the batches are then the ids themselves.
        threads: that fetch ahead, each a part of every batch; 0 fetches when asked. Threads share the data set,
            and one is enough to hide loading behind computing unless loading is the slower of the two.
    """

    def __init__(self, data: Any, threads: int = 1) -> None:
        self.data = data
        self._threads = threads
        self._pool = None
        if threads > 0 and not isinstance(data, int):
            self._pool = ThreadPoolExecutor(threads, thread_name_prefix="freetrain-loader")
        self._ahead: dict[Ids, _Batch] = {}

    def get(self, ids: Sequence[int]) -> Any:
        """The batch of these samples; what the data set raises is raised here."""
        if isinstance(self.data, int):
            return torch.tensor(list(ids))
        ahead = self._ahead.pop(tuple(ids), None)
        if ahead is None:
            return default_collate([self.data[id_] for id_ in ids])
        return ahead.collated.result()

    def prepare(self, batches: Sequence[Sequence[int]]) -> None:
        """Fetch these next, in this order; anything else that was prepared is forgotten."""
        if self._pool is None:
            return
        wanted = [tuple(ids) for ids in batches if ids]
        for stale in self._ahead.keys() - set(wanted):
            self._ahead.pop(stale).is_wanted = False
        for ids in wanted:
            if ids not in self._ahead:
                self._ahead[ids] = _Batch(self.data, ids, min(self._threads, len(ids)), self._pool)

    def close(self) -> None:
        """Fetch no more."""
        for batch in self._ahead.values():
            batch.is_wanted = False
        self._ahead.clear()
        if self._pool is not None:
            # Not waited for: a sample may take long, and nobody wants it any more.
            self._pool.shutdown(wait=False, cancel_futures=True)


class _Batch:
    """A batch whose parts are fetched by as many threads; the first one that is free puts it together."""

    def __init__(self, data: Any, ids: Ids, parts: int, pool: ThreadPoolExecutor) -> None:
        self.is_wanted = True
        self._data = data
        fetched = [pool.submit(self._fetch, share_of(ids, part, parts)) for part in range(parts)]
        # After its parts: a thread that waits for one of them waits for a thread that has begun with it.
        self.collated: Future[Any] = pool.submit(self._collate, fetched)

    def _fetch(self, ids: Sequence[int]) -> list[Any]:
        return [self._data[id_] for id_ in ids if self.is_wanted]

    def _collate(self, fetched: Sequence[Future[list[Any]]]) -> Any:
        return default_collate([item for part in fetched for item in part.result()]) if self.is_wanted else None
