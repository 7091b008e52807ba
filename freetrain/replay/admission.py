"""Admission: who is there at all, in order of submission; and which of those compete, by the daemon's own rule."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from math import inf

from freetrain.core.trainer import Trainer
from freetrain.lending.facts import Request
from freetrain.lending.rules import FairShare, SharingRules
from freetrain.lending.sharing.selection import select

_MOST_UNABLE = 1000
"""So many trainers that need more nodes than there are may be here; whoever comes behind them waits outside."""


class Admission:
    """Trainers that come in one after the other.

    They are let in while fewer than ``max_running`` of those that are here could run, so that nobody who needs
    more nodes than there are keeps others from running.

    Args:
        trainers: in order of submission; may be endless.
        max_running: most that may compete at once.
    """

    def __init__(self, trainers: Iterable[Trainer], max_running: int) -> None:
        self._coming = iter(trainers)
        self._next = next(self._coming, None)
        self._sharing = SharingRules(FairShare.OFF, max_running=max_running)

    @property
    def is_empty(self) -> bool:
        """Whether nobody will ever come again."""
        return self._next is None

    def next_arrival_s(self, least: Sequence[int], nodes: int, now_s: float) -> float:
        """When the next trainer comes in if nothing else happens before; inf: not then.

        Args:
            least: fewest nodes of each that has come in and is not complete.
            nodes: how many there are for them.
            now_s: UTC epoch seconds.
        """
        if self._next is None or not self._has_place(least, nodes):
            return inf
        return now_s if self._next.submitted_s is None else max(self._next.submitted_s, now_s)

    def let_in(self, least: Sequence[int], nodes: int, now_s: float) -> list[Trainer]:
        """Those who come in now, submitted now where nobody says when; see :meth:`next_arrival_s`."""
        new: list[Trainer] = []
        while self._next is not None and self.next_arrival_s(least, nodes, now_s) <= now_s:
            is_known = self._next.submitted_s is not None
            new.append(self._next if is_known else replace(self._next, submitted_s=now_s))
            least = [*least, self._next.min_nodes]
            self._next = next(self._coming, None)
        return new

    def competing(self, here: tuple[Request, ...], nodes: int) -> tuple[Request, ...]:
        """Which of those that are here may have some of so many nodes; all of them: the same sequence."""
        if len(here) <= self._sharing.max_running and all(one.trainer.min_nodes <= nodes for one in here):
            return here
        reach = dict.fromkeys((one.id for one in here), nodes)
        return select(here, reach, nodes, self._sharing, {}).competing

    def _has_place(self, least: Sequence[int], nodes: int) -> bool:
        # Where there is no node at all nobody can run, and who could run on one keeps the place.
        nodes = max(nodes, 1)
        able = len(least) if max(least, default=0) <= nodes else sum(fewest <= nodes for fewest in least)
        return able < self._sharing.max_running and len(least) - able < _MOST_UNABLE
