"""The data of the steps, the next step's fetched while this one computes."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import torch
from torch.utils.data import default_collate

Ids = tuple[int, ...]


class Loader:
    """Turns sample ids into batches.

    Args:
        data: anything with items, or a number: the batches are then the ids themselves.
        threads: that fetch ahead; 0 fetches when asked. Threads share the data set, and one is enough to hide
            loading behind computing unless loading is the slower of the two.
    """

    def __init__(self, data: Any, threads: int = 1) -> None:
        self._data = data
        self._pool = None
        if threads > 0 and not isinstance(data, int):
            self._pool = ThreadPoolExecutor(threads, thread_name_prefix="freetrain-loader")
        self._ahead: dict[Ids, Future[Any]] = {}

    def get(self, ids: Sequence[int]) -> Any:
        """The batch of these samples; what the data set raises is raised here."""
        ahead = self._ahead.pop(tuple(ids), None)
        return self._fetch(ids) if ahead is None else ahead.result()

    def prepare(self, batches: Sequence[Sequence[int]]) -> None:
        """These come next, in this order; what was prepared otherwise is forgotten."""
        if self._pool is None:
            return
        wanted = [tuple(ids) for ids in batches if ids]
        for stale in self._ahead.keys() - set(wanted):
            self._ahead.pop(stale).cancel()
        for ids in wanted:
            if ids not in self._ahead:
                self._ahead[ids] = self._pool.submit(self._fetch, ids)

    def close(self) -> None:
        """Fetch no more."""
        self._ahead.clear()
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)

    def _fetch(self, ids: Sequence[int]) -> Any:
        if isinstance(self._data, int):
            return torch.tensor(list(ids))
        return default_collate([self._data[id_] for id_ in ids])
