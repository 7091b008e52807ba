"""The time that the pictures show, and its axis. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from freetrain.daemon.reports.recent_nodes import KEPT_S
from freetrain.showing.ticks import time_axis

PAST_S, AHEAD_S = KEPT_S, 6 * 3600.0
_MARKS = 10


@dataclass(frozen=True, slots=True)
class Mark:
    """A time on the axis.

    Attributes:
        percent: how far from its left end.
        label: what stands there.
        is_extra: whether narrow screens leave it out.
    """

    percent: float
    label: str
    is_extra: bool


@dataclass(frozen=True, slots=True)
class Window:
    """A day behind a moment and some hours ahead of it.

    Attributes:
        now_s: the moment, UTC epoch seconds.
        known_until_s: after then nobody looked until now; ``now_s``: it is known until now.
    """

    now_s: float
    known_until_s: float

    @property
    def from_s(self) -> float:
        """Its left end."""
        return self.now_s - PAST_S

    @property
    def until_s(self) -> float:
        """Its right end."""
        return self.now_s + AHEAD_S

    def share(self, time_s: float) -> float:
        """Where a time lies, from 0 at the left end to 1 at the right one; not beyond them."""
        return min(1.0, max(0.0, (time_s - self.from_s) / (self.until_s - self.from_s)))

    def percent(self, time_s: float) -> float:
        """The same in percent."""
        return round(100 * self.share(time_s), 2)

    @property
    def marks(self) -> tuple[Mark, ...]:
        """Round times."""
        return tuple(self._marks())

    def _marks(self) -> Iterator[Mark]:
        axis = time_axis(self.from_s, self.until_s, _MARKS)
        for number, (at_s, label) in enumerate(zip(axis.at_s, axis.labels, strict=True)):
            # What stands at the very ends would be cut off.
            if 2 < self.percent(at_s) < 98:
                yield Mark(self.percent(at_s), label, number % 2 == 1)
