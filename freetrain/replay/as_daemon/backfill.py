"""Slurm's backfill cycles: each begins when its interval is over since the last one, and something has changed."""

from __future__ import annotations

from math import ceil


class BackfillCycles:
    """When they begin.

    Slurm looks once a second whether the interval is over and anything has changed since it last planned
    (``backfill_agent`` in ``src/plugins/sched/backfill/backfill.c`` of Slurm 22.05). So on a busy machine one
    cycle follows the other, after a quiet while a change is answered within a second, and no clock sets their
    phase.

    Args:
        interval_s: Slurm's ``bf_interval``.
        begin_s: the first one.
    """

    def __init__(self, interval_s: float, begin_s: float) -> None:
        self._interval_s = interval_s
        self._last_s = self._next_s = begin_s

    def note_change(self, at_s: float) -> None:
        """Something changes: a job comes, starts or ends, or an order reaches Slurm."""
        if self._next_s <= at_s:
            self._last_s = self._next_s
        if self._next_s == self._last_s:
            self._next_s += max(self._interval_s, ceil(at_s - self._last_s))

    def last_s(self, now_s: float) -> float:
        """The one that began last, this moment included."""
        return self._next_s if self._next_s <= now_s else self._last_s

    @property
    def next_s(self) -> float:
        """The one that answers the last change; it may have begun already."""
        return self._next_s
