"""The order of an epoch's samples, computed for those that are asked for: no list of all samples is ever made."""

from __future__ import annotations

import hashlib

import torch

_ROUNDS = 8
"""Four make a good cipher of a good mixing function; small data sets have few bits, and more cost little."""

_LEAST_BITS = 6
"""Of fewer, some shuffles would come up much more often than others."""

_FIRST, _SECOND = 0x9E3779B97F4A7C15 - (1 << 64), 0xBF58476D1CE4E5B9 - (1 << 64)
"""Odd numbers with well mixed bits, as torch's signed integers have them; products wrap around."""


class Permutation:
    """A shuffle of the numbers below ``size``: a Feistel cipher on as few bits as hold them.

    What it sends beyond ``size`` is sent on until it comes back below, which keeps it one to one.

    Args:
        size: how many numbers; below 2⁶⁰.
        key: another shuffle for each.
    """

    def __init__(self, size: int, key: str) -> None:
        self._size = size
        bits = max(_LEAST_BITS, (size - 1).bit_length())
        self._low_bits, self._high_bits = bits - bits // 2, bits // 2
        self._keys = [_number(f"{key}/{turn}") for turn in range(_ROUNDS)]

    def places(self, start: int, stop: int) -> torch.Tensor:
        """The numbers at these places."""
        values = self._encipher(torch.arange(start, stop))
        while bool((beyond := values >= self._size).any()):
            values[beyond] = self._encipher(values[beyond])
        return values

    def _encipher(self, values: torch.Tensor) -> torch.Tensor:
        """The halves change places, and bits, in each of an even number of rounds."""
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
