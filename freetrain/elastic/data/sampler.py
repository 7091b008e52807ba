"""Which samples come next: every sample exactly once per epoch, whatever happens to the world."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any

import torch

# Places of the order that are computed at once, which costs less per place than a few.
_AHEAD = 8192
# Four make a good cipher of a good mixing function; small data sets have few bits, and more cost little.
_ROUNDS = 8
# With fewer, some shuffles would come up much more often than others.
_MIN_BITS = 6
# SplitMix64's (Steele, Lea, Flood: "Fast Splittable Pseudorandom Number Generators", OOPSLA 2014): odd, with well
# mixed bits. As torch's signed integers have them; products wrap around.
_FIRST, _SECOND = 0x9E3779B97F4A7C15 - (1 << 64), 0xBF58476D1CE4E5B9 - (1 << 64)


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
        """Where it stands."""
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
        self._keys = [_number(f"{key}/{turn}") for turn in range(_ROUNDS)]

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
            high, low = low, high ^ (_mix(low, key) & ((1 << high_bits) - 1))
            low_bits, high_bits = high_bits, low_bits
        return (high << low_bits) | low


def _mix(values: torch.Tensor, key: int) -> torch.Tensor:
    """Thirty-one bits (and a sign) that depend on all bits of the values and the key."""
    mixed = (values ^ key) * _FIRST
    mixed = (mixed ^ (mixed >> 29)) * _SECOND
    return mixed >> 33


def _number(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big", signed=True)
