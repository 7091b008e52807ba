"""Batches in passes: no more samples at once than a device has room for, fetched by threads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from freetrain.elastic.data.batching import passes_of
from freetrain.elastic.data.loading import Loader
from freetrain.elastic.data.step_batches import Draw

Passes = Sequence[Sequence[int]]


class PassStream:
    """Samples of each batch, pass by pass, while threads fetch the batch after it.

    Args:
        data: a data set with length and items, or a number of samples, whose data are their ids.
        threads: that fetch ahead; 0: none.
        at_most: samples of a pass; None: each batch is one pass.
    """

    def __init__(self, data: Any, threads: int, at_most: int | None) -> None:
        self.dataset: Any = range(data) if isinstance(data, int) else data
        self.loader = Loader(data, threads)
        self._at_most = at_most
        self._draws: Iterator[Draw] = iter(())
        self._ahead: Draw | None = None

    def restart(self, draws: Iterator[Draw]) -> None:
        """From now on these come, in this order."""
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
