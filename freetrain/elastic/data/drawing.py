"""Batches of samples that can be asked for by number: fetched by the script's DataLoader, or by threads."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import torch
from torch.utils.data import DataLoader, default_collate

from freetrain.elastic.data.batching import Draw, FixedBatch, ScaledBatch, StepBatches, passes_of, share_of
from freetrain.elastic.data.sampler import Sampler
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

    def __init__(
        self, sampler: Sampler, batch: FixedBatch | ScaledBatch, stream: BatchStream | PassStream
    ) -> None:
        super().__init__(stream.dataset, sampler, batch)
        self._stream = stream

    def next(self, world: World) -> tuple[Draw, Any] | None:
        """One batch more for the step under way; None at the end of the epoch."""
        if self._is_stale:
            self._stream.restart(self._draws(world))
            self._is_stale = False
        asked_s = time.perf_counter()
        drawn = self._stream.next()
        self.wait_s += time.perf_counter() - asked_s
        self.is_at_end = drawn is None
        if drawn is not None:
            self.taken.append(drawn[0])
        return drawn

    def batches_per_epoch(self, world_size: Callable[[], int]) -> int:
        """How many there are in this epoch, if the world does not change."""
        sampler = self._sampler
        per_batch = self.batch.samples if isinstance(self.batch, FixedBatch) else self.batch.per_step(world_size())
        left = sampler.samples - sampler.position
        return sampler.batches + (left // per_batch if sampler.drop_last else -(-left // per_batch))

    def close(self) -> None:
        """Fetch no more."""
        self._stream.close()

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


class BatchStream:
    """Fetches given batches as the script's DataLoader would; of a number of samples the ids themselves."""

    def __init__(self, data: Any) -> None:
        self.dataset: Any = range(data) if isinstance(data, int) else data
        if isinstance(data, DataLoader):
            self.dataset = data.dataset
        options = {name: getattr(data, name) for name in KEPT_OPTIONS} if isinstance(data, DataLoader) else {}
        self._generator = torch.Generator()
        self._plan = _Plan()
        self._loader: DataLoader[Any] = DataLoader(
            self.dataset, batch_sampler=self._plan, generator=self._generator, **options
        )
        self._iterator: Iterator[Any] = iter(())
        self._restarts = 0

    def restart(self, draws: Iterator[Draw]) -> None:
        """Go on with these, in this order; anything else that was fetched is forgotten."""
        self._restarts += 1
        # Workers draw random numbers of their own from this, others after each restart, or augmentations would be
        # repeated; the training's own stream is left as it is.
        self._generator.manual_seed((torch.initial_seed() + self._restarts) % (1 << 63))
        self._plan.begin(draws)
        # First of all: the old iterator's worker processes end before the new one's start.
        self._iterator = iter(())
        self._iterator = iter(self._loader)

    def next(self) -> tuple[Draw, Any] | None:
        """The next batch, or None where there is none; what the data set raises is raised here."""
        try:
            data = next(self._iterator)
        except StopIteration:
            return None
        return self._plan.fetched.popleft(), data

    def close(self) -> None:
        """Fetch no more."""
        self._iterator = iter(())


class _Plan:
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


class PassStream:
    """Samples of each batch, in passes of at most so many, while threads fetch the batch after it."""

    def __init__(self, data: Any, threads: int, at_most: int | None) -> None:
        self.dataset: Any = range(data) if isinstance(data, int) else data
        self.loader = Loader(data, threads)
        self._at_most = at_most
        self._draws: Iterator[Draw] = iter(())
        self._ahead: Draw | None = None

    def restart(self, draws: Iterator[Draw]) -> None:
        """Go on with these, in this order."""
        self._draws = draws
        self._ahead = next(draws, None)

    def next(self) -> tuple[Draw, Passes] | None:
        """The next batch and its passes, of which one without samples has no data of its own; None at the end."""
        draw, self._ahead = self._ahead, None
        if draw is None:
            return None
        self._ahead = next(self._draws, None)
        passes = passes_of(draw.mine, self._at_most)
        self.loader.prepare([*passes, *(passes_of(self._ahead.mine, self._at_most) if self._ahead else ())])
        return draw, passes

    def close(self) -> None:
        """Fetch no more."""
        self.loader.close()


class Loader:
    """Turns sample ids into batches.

    Args:
        data: anything with items, or a number: the batches are then the ids themselves.
        threads: that fetch ahead, each a part of every batch; 0 fetches when asked. Threads share the data set,
            and one is enough to hide loading behind computing unless loading is the slower of the two.
    """

    def __init__(self, data: Any, threads: int = 1) -> None:
        self._data = data
        self._threads = threads
        self._pool = None
        if threads > 0 and not isinstance(data, int):
            self._pool = ThreadPoolExecutor(threads, thread_name_prefix="freetrain-loader")
        self._ahead: dict[Ids, _Batch] = {}

    def get(self, ids: Sequence[int]) -> Any:
        """The batch of these samples; what the data set raises is raised here."""
        if isinstance(self._data, int):
            return torch.tensor(list(ids))
        ahead = self._ahead.pop(tuple(ids), None)
        if ahead is None:
            return default_collate([self._data[id_] for id_ in ids])
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
                batch = self._ahead[ids] = _Batch(self._data, ids, min(self._threads, len(ids)))
                for part in range(batch.parts):
                    self._pool.submit(batch.fetch, part)

    def close(self) -> None:
        """Fetch no more."""
        for batch in self._ahead.values():
            batch.is_wanted = False
        self._ahead.clear()
        if self._pool is not None:
            # Not waited for: a sample may take long, and nobody wants it any more.
            self._pool.shutdown(wait=False, cancel_futures=True)


class _Batch:
    """A batch whose parts are fetched by as many threads; the last one puts it together."""

    def __init__(self, data: Any, ids: Ids, parts: int) -> None:
        self.collated: Future[Any] = Future()
        self.is_wanted = True
        self.parts = parts
        self._data = data
        self._ids = ids
        self._items: list[list[Any] | None] = [None] * parts
        self._lock = threading.Lock()

    def fetch(self, part: int) -> None:
        try:
            items = [self._data[id_] for id_ in share_of(self._ids, part, self.parts) if self.is_wanted]
            with self._lock:
                self._items[part] = items
                is_last = None not in self._items
            if is_last and self.is_wanted:
                self.collated.set_result(default_collate([item for some in self._items for item in some or ()]))
        # Whatever it is: who asks for the batch would wait for ever.
        except BaseException as error:
            self._fail(error)

    def _fail(self, error: BaseException) -> None:
        with self._lock:
            # Several parts may fail, and a future takes one outcome only.
            if not self.collated.done():
                self.collated.set_exception(error)
