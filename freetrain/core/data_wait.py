"""How long a training waits for data, and with how many CPUs and how much memory that was measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

WAITS = 0.05
"""A training that waits for data for a smaller part of its steps gains next to nothing by more CPUs."""


@dataclass(frozen=True, slots=True)
class DataWait:
    """What a training's progress says of it.

    Attributes:
        share: part of a step that it waited for data.
        cpus: that its first process had of its node; 0: not known.
        memory_mb: likewise.
    """

    share: float
    cpus: int = 0
    memory_mb: int = 0

    def after(self, before: DataWait | None) -> DataWait:
        """What is known of it, if this was known before.

        A training that no longer waits as it has more than before waits again when it has less: what was said then
        goes on to hold.
        """
        if before is None or before.share < WAITS or self.share >= WAITS:
            return self
        has_more = self.cpus > before.cpus > 0 or self.memory_mb > before.memory_mb > 0
        return before if has_more else self

    def share_with(self, cpus: int) -> float:
        """Part of a step that it would wait with so many CPUs; reading takes time in inverse proportion to them.

        Of one that did not wait nothing is known but that more CPUs do not help.
        """
        if self.share < WAITS or not self.cpus:
            return self.share
        return max(0.0, 1 - (1 - min(self.share, 1.0)) * cpus / self.cpus)


def summed_up(said: Sequence[tuple[DataWait, float]]) -> DataWait | None:
    """What is known after several statements, each on so many seconds.

    Those that follow each other with the same CPUs and memory are averaged.
    """
    known: DataWait | None = None
    for (cpus, memory_mb), alike in groupby(said, key=lambda one: (one[0].cpus, one[0].memory_mb)):
        measured = list(alike)
        elapsed_s = sum(each_s for _, each_s in measured)
        share = sum(one.share * each_s for one, each_s in measured) / elapsed_s
        known = DataWait(share, cpus, memory_mb).after(known)
    return known
