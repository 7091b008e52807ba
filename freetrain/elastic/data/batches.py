"""What a script that keeps its loop iterates over, in place of its DataLoader."""

from __future__ import annotations

import linecache
import logging
import re
import sys
from collections.abc import Iterator
from typing import Any, Protocol

log = logging.getLogger(__name__)

_ZIP = re.compile(r"\bzip(_longest)?\(")


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
        self._has_warned = False

    def __len__(self) -> int:
        """Batches of the epoch."""
        return self._source.batches_per_epoch()

    def __iter__(self) -> Iterator[Any]:
        """Batch by batch."""
        self._look_for_zip()
        for _, batch in self.numbered():
            yield batch

    def _look_for_zip(self) -> None:
        """Whether the script reads something else beside it, of which each rank would read all."""
        caller = sys._getframe(2)
        line = linecache.getline(caller.f_code.co_filename, caller.f_lineno)
        if not self._has_warned and _ZIP.search(line):
            self._has_warned = True
            log.warning(
                "%s:%d zips run.batches with something else, which is not divided among the ranks: each reads all "
                "of it. Give several loaders as one: elastic.Loop(model, optimizer, [loader, other]).",
                caller.f_code.co_filename,
                caller.f_lineno,
            )

    def numbered(self) -> Iterator[tuple[int, Any]]:
        """In place of ``enumerate``: numbers are the same on all ranks, and again where a step is made again."""
        while (taken := self._source.take()) is not None:
            yield taken
