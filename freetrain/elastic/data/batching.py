"""How many samples a step takes, and who takes which: pure arithmetic."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class FixedBatch:
    """The same number of samples per step whatever the world's size: the loss curve does not depend on it.

    Attributes:
        samples: samples per step, over all ranks.
        at_most_per_pass: samples that one rank puts through the model at once; more are taken in several passes
            whose gradients add up.
    """

    samples: int
    at_most_per_pass: int | None = None

    def per_step(self, world: int) -> int:
        """Samples per step, over all ranks."""
        return self.samples


@dataclass(frozen=True, slots=True)
class ScaledBatch:
    """The same number of samples per rank and step: larger worlds take larger steps.

    The learning rate usually has to follow, see :func:`freetrain.elastic.scale_learning_rate`.

    Attributes:
        samples_per_rank: samples per step on each rank.
        at_most_per_pass: as in :class:`FixedBatch`.
    """

    samples_per_rank: int
    at_most_per_pass: int | None = None

    def per_step(self, world: int) -> int:
        """Samples per step, over all ranks."""
        return self.samples_per_rank * world


def share_of(items: Sequence[Item], rank: int, world: int) -> Sequence[Item]:
    """One rank's contiguous share; shares differ by at most one in length."""
    return items[rank * len(items) // world : (rank + 1) * len(items) // world]


def passes_of(share: Sequence[Item], at_most: int | None) -> list[Sequence[Item]]:
    """The share in pieces of nearly equal length, none longer than ``at_most``; at least one piece."""
    count = max(1, -(-len(share) // at_most) if at_most else 1)
    return [share_of(share, index, count) for index in range(count)]
