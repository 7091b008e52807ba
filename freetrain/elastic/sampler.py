"""Which samples come next: every sample exactly once per epoch, whatever happens to the world."""

from __future__ import annotations

from typing import Any

import torch


class Sampler:
    """A position in a sequence of epochs, each a permutation that depends on the seed and the epoch only.

    The position moves by whole steps of the whole world and only when a step is complete, so that neither a
    change of the world nor a lost rank makes a sample be seen twice or missed.

    Args:
        samples: samples in the data set.
        epochs: passes over it.
        seed: of the permutations.
        shuffle: False keeps the data set's order.
    """

    def __init__(self, samples: int, epochs: int, seed: int = 0, *, shuffle: bool = True) -> None:
        self.samples = samples
        self.epochs = epochs
        self.seed = seed
        self.shuffle = shuffle
        self.epoch = 0
        self.position = 0
        self._order: tuple[int, torch.Tensor] | None = None

    @property
    def finished(self) -> bool:
        """Whether all epochs are through."""
        return self.epoch >= self.epochs

    def peek(self, count: int, skip: int = 0) -> list[int]:
        """Ids of the next samples, some skipped; fewer at the end of an epoch."""
        start = self.position + skip
        ids: list[int] = self._epoch_order()[start : start + count].tolist()
        return ids

    def advance(self, count: int) -> None:
        """The next ``count`` samples are done."""
        self.position += count
        if self.position >= self.samples:
            self.epoch, self.position = self.epoch + 1, 0

    def _epoch_order(self) -> torch.Tensor:
        if self._order is None or self._order[0] != self.epoch:
            generator = torch.Generator().manual_seed(self.seed * 1_000_003 + self.epoch)
            order = (
                torch.randperm(self.samples, generator=generator) if self.shuffle else torch.arange(self.samples)
            )
            self._order = (self.epoch, order)
        return self._order[1]

    def state_dict(self) -> dict[str, Any]:
        """Where it stands."""
        return {"epoch": self.epoch, "position": self.position, "seed": self.seed}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from there."""
        self.epoch, self.position, self.seed = state["epoch"], state["position"], state["seed"]
        self._order = None
