"""Admission: first come, first served, so many at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import inf

from freetrain.core.trainer import Trainer


class AdmissionQueue:
    """Trainers that wait for a place.

    Args:
        trainers: in order of submission; may be endless.
        max_running: how many places there are.
    """

    def __init__(self, trainers: Iterable[Trainer], max_running: int) -> None:
        self._coming = iter(trainers)
        self._next = next(self._coming, None)
        self._max_running = max_running

    @property
    def is_empty(self) -> bool:
        """Whether nobody will ever come again."""
        return self._next is None

    def next_arrival_s(self, running: int, now_s: float) -> float:
        """When the next trainer will be admitted if nobody leaves before."""
        if self._next is None or running >= self._max_running:
            return inf
        return now_s if self._next.submitted_s is None else max(self._next.submitted_s, now_s)

    def admit(self, running: int, now_s: float) -> Iterator[Trainer]:
        """Those who are here and find a place."""
        while self._next is not None and self.next_arrival_s(running, now_s) <= now_s:
            yield self._next
            running += 1
            self._next = next(self._coming, None)
