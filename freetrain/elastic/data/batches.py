"""What a script that keeps its loop iterates over, in place of its DataLoader."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol


class Source(Protocol):
    """Where the batches come from."""

    def take(self) -> tuple[int, Any] | None:
        """This rank's part of the next batch and its number in the epoch; None at the end of the epoch."""

    def batches_per_epoch(self) -> int:
        """How many batches the epoch has."""


class Batches:
    """This rank's part of each batch of the epoch; what is left of it where this worker joined in its middle.

    Args:
        source: of the batches.
        dataset: what the samples come from.
    """

    def __init__(self, source: Source, dataset: Any) -> None:
        self.dataset = dataset
        self._source = source

    def __len__(self) -> int:
        """Batches of the epoch."""
        return self._source.batches_per_epoch()

    def __iter__(self) -> Iterator[Any]:
        """Batch by batch."""
        for _, batch in self.numbered():
            yield batch

    def numbered(self) -> Iterator[tuple[int, Any]]:
        """In place of ``enumerate``: numbers are the same on all ranks, and again where a step is made again."""
        while (taken := self._source.take()) is not None:
            yield taken
