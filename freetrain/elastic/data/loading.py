"""The data of the steps, the next step's fetched while this one computes."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import torch
from torch.utils.data import default_collate

from freetrain.elastic.data.batching import share_of

Ids = tuple[int, ...]


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
        """These come next, in this order; what was prepared otherwise is forgotten."""
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
            self._pool.shutdown(wait=False, cancel_futures=True)


class _Batch:
    """A batch whose parts are fetched by as many threads; who comes last puts it together."""

    def __init__(self, data: Any, ids: Ids, parts: int) -> None:
        self.collated: Future[Any] = Future()
        self.is_wanted = True
        self.parts = parts
        self._data = data
        self._ids = ids
        self._items: list[list[Any] | None] = [None] * parts
        self._lock = threading.Lock()

    def fetch(self, part: int) -> None:
        """Fetch one part."""
        try:
            items = [self._data[id_] for id_ in share_of(self._ids, part, self.parts) if self.is_wanted]
            with self._lock:
                self._items[part] = items
                is_last = None not in self._items
            if is_last and self.is_wanted:
                self.collated.set_result(default_collate([item for some in self._items for item in some or ()]))
        except BaseException as error:
            self._fail(error)

    def _fail(self, error: BaseException) -> None:
        with self._lock:
            if not self.collated.done():
                self.collated.set_exception(error)
