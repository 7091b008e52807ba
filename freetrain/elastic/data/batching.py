"""How many samples a step takes, which rank takes which, and the batches of the step under way."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from freetrain.elastic.data.sampler import Sampler
from freetrain.elastic.worlds.world import World

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


@dataclass(frozen=True, slots=True)
class Draw:
    """The samples of one batch."""

    ids: Sequence[int]  # of the whole world
    mine: Sequence[int]  # of this rank; perhaps none

    @property
    def weight(self) -> float:
        """This rank's share of the samples."""
        return len(self.mine) / len(self.ids)

    @property
    def fetched(self) -> list[int]:
        """The samples to compute with: a rank without samples repeats one, as all take part in each step."""
        return list(self.mine or self.ids[:1])


class StepBatches(ABC):
    """The batches of the step under way, which the position moves over only when the step is complete."""

    def __init__(self, dataset: Any, sampler: Sampler, batch: FixedBatch | ScaledBatch) -> None:
        self.taken: list[Draw] = []  # batches of the step under way
        self.wait_s = 0.0  # spent waiting for them
        self.is_at_end = False  # the epoch has no more batches
        self.mark = 0  # of the data that all ranks have read in the step under way, where each reads all of it
        self.dataset = dataset
        self.batch = batch
        self._sampler = sampler
        self._iterator: Iterator[Any] = iter(())
        self._is_stale = True

    def restart(self) -> None:
        """The world, the epoch or the position is another one."""
        self._is_stale = True

    def next(self, world: World) -> tuple[Draw, Any] | None:
        """One batch more for the step under way; None at the end of the epoch."""
        if self._is_stale:
            self._begin(world)
            self._is_stale = False
        asked_s = time.perf_counter()
        drawn = self._take(world)
        self.wait_s += time.perf_counter() - asked_s
        self.is_at_end = drawn is None
        return drawn

    @abstractmethod
    def _begin(self, world: World) -> None:
        """Go on from the training's position."""

    @abstractmethod
    def _take(self, world: World) -> tuple[Draw, Any] | None:
        """The next batch, noted as taken; None at the end of the epoch."""

    @abstractmethod
    def batches_per_epoch(self, world_size: Callable[[], int]) -> int:
        """How many there are in this epoch in a world of this size, which is asked for only where it matters."""

    def close(self) -> None:
        """Fetch no more."""
        self._iterator = iter(())

    def note_read(self, count: int, world: World) -> tuple[Draw, list[int]]:
        """Take the samples that all ranks have read just now; their draw, and the places of this rank's ones."""
        start = self._sampler.position + self.samples
        ids = range(start, start + count)
        draw = Draw(ids, share_of(ids, world.rank, world.size))
        self.taken.append(draw)
        return draw, [id_ - start for id_ in draw.fetched]

    def forget_step(self) -> None:
        """The step is over."""
        self.taken = []
        self.wait_s = 0.0
        self.mark = 0

    @property
    def samples(self) -> int:
        """Samples of the step under way, over all ranks."""
        return sum(len(draw.ids) for draw in self.taken)

    @property
    def share(self) -> float:
        """This rank's share of these samples."""
        return sum(len(draw.mine) for draw in self.taken) / max(1, self.samples)

    @property
    def number(self) -> int:
        """Number of the batch taken last, in its epoch, from 0."""
        return self._sampler.batches + len(self.taken) - 1
