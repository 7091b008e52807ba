"""Batching: samples per step, their order, the ranks' shares of them, and the batches of the step under way."""

from __future__ import annotations

import hashlib
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import torch

from freetrain.elastic.worlds.world import World

Item = TypeVar("Item")
# Places of the order that are computed at once, which costs less per place than a few.
_AHEAD = 8192
# Four make a good cipher of a good mixing function; small data sets have few bits, and more cost little.
_ROUNDS = 8
# With fewer, some shuffles would come up much more often than others.
_MIN_BITS = 6
# SplitMix64's (Steele, Lea, Flood: "Fast Splittable Pseudorandom Number Generators", OOPSLA 2014): odd, with well
# mixed bits. As torch's signed integers have them; products wrap around.
_FIRST, _SECOND = 0x9E3779B97F4A7C15 - (1 << 64), 0xBF58476D1CE4E5B9 - (1 << 64)


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


class Sampler:
    """A position in a sequence of epochs, each in an order that depends on the seed and the epoch only.

    The position moves by whole steps of the whole world and only when a step is complete, so that neither a
    change of the world nor a lost rank makes a sample be seen twice or missed.

    Args:
        drop_last: leave out what an epoch has left when it is not enough for a step.
        listed: an epoch's order, where it is not to be computed here.
    """

    def __init__(
        self,
        samples: int,
        epochs: int,
        seed: int = 0,
        *,
        shuffle: bool = True,
        drop_last: bool = False,
        listed: Callable[[int], Sequence[int]] | None = None,
    ) -> None:
        self.samples = samples
        self.epochs = epochs
        self.seed = seed
        self.shuffle = shuffle
        self.drop_last = drop_last
        self.epoch = 0
        self.position = 0
        self.batches = 0  # taken in this epoch, as the script counts them
        self._listed = listed
        self._known = (0, 0, torch.empty(0, dtype=torch.int64))

    @property
    def finished(self) -> bool:
        """Whether all epochs are through."""
        return self.epoch >= self.epochs

    def peek(self, count: int, skip: int = 0) -> list[int]:
        """Ids of the next samples, some skipped; fewer at the end of an epoch, or none with ``drop_last``."""
        start = self.position + skip
        stop = min(start + count, self.samples)
        if start >= stop or (self.drop_last and stop - start < count):
            return []
        epoch, begin, known = self._known
        if epoch != self.epoch or not begin <= start <= stop <= begin + len(known):
            begin, known = start, self._order(start, min(max(stop, start + _AHEAD), self.samples))
            self._known = (self.epoch, begin, known)
        ids: list[int] = known[start - begin : stop - begin].tolist()
        return ids

    def advance(self, count: int, batches: int = 1) -> None:
        """The next ``count`` samples are done; the position stays at the end of the epoch until that is ended."""
        self.position += count
        self.batches += batches

    def end_epoch(self) -> None:
        """Go on with the next one."""
        self.epoch, self.position, self.batches = self.epoch + 1, 0, 0

    def _order(self, start: int, stop: int) -> torch.Tensor:
        if self._listed is not None:
            return torch.tensor(self._listed(self.epoch)[start:stop])
        if not self.shuffle:
            return torch.arange(start, stop)
        return Permutation(self.samples, f"{self.seed}/{self.epoch}").places(start, stop)

    def state_dict(self) -> dict[str, Any]:
        """Position in the epochs, by name."""
        return {"epoch": self.epoch, "position": self.position, "seed": self.seed, "batches": self.batches}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from there."""
        self.epoch, self.position, self.seed = state["epoch"], state["position"], state["seed"]
        self.batches = state.get("batches", 0)
        # What was computed ahead belongs to the seed before.
        self._known = (0, 0, self._known[2][:0])


class Permutation:
    """A shuffle of the numbers below ``size``, below 2⁶⁰ itself: a Feistel cipher on as few bits as hold them.

    What it sends beyond ``size`` is sent on until it comes back below, which keeps it one to one.
    """

    def __init__(self, size: int, key: str) -> None:
        self._size = size
        bits = max(_MIN_BITS, (size - 1).bit_length())
        self._low_bits, self._high_bits = bits - bits // 2, bits // 2
        hashes = [hashlib.blake2b(f"{key}/{turn}".encode(), digest_size=8) for turn in range(_ROUNDS)]
        self._keys = [int.from_bytes(hashed.digest(), "big", signed=True) for hashed in hashes]

    def places(self, start: int, stop: int) -> torch.Tensor:
        """The numbers at these places."""
        values = self._encipher(torch.arange(start, stop))
        # Cycle walking (Black, Rogaway: "Ciphers with Arbitrary Finite Domains", CT-RSA 2002). At least
        # half of the values are below, but in tiny data sets: a few rounds are enough.
        while bool((beyond := values >= self._size).any()):
            values[beyond] = self._encipher(values[beyond])
        return values

    def _encipher(self, values: torch.Tensor) -> torch.Tensor:
        # The halves may differ by a bit in length: after an even number of rounds each has its own again.
        low_bits, high_bits = self._low_bits, self._high_bits
        high, low = values >> low_bits, values & ((1 << low_bits) - 1)
        for key in self._keys:
            # Thirty-one bits (and a sign) that depend on all bits of the half and the key.
            mixed = (low ^ key) * _FIRST
            mixed = ((mixed ^ (mixed >> 29)) * _SECOND) >> 33
            high, low = low, high ^ (mixed & ((1 << high_bits) - 1))
            low_bits, high_bits = high_bits, low_bits
        return (high << low_bits) | low


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
        """Start again, as the world, the epoch or the position is another one."""
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
        """Number of batches in this epoch in a world of this size, which is asked for only where it matters."""

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
