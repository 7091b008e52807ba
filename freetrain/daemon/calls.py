"""Calls: how often Slurm was asked or ordered something lately; that is part of what the daemon costs a site."""

from __future__ import annotations

from collections import deque

_HOUR_S = 3600.0


class Calls:
    """The last hour's calls, as a counter that only grows showed them.

    Args:
        begun_s: when the counter began at 0, in running seconds.
    """

    def __init__(self, begun_s: float) -> None:
        self._seen = deque([(begun_s, 0)])

    def lately(self, total: int, now_s: float) -> int:
        """How many there were in the hour before now.

        Args:
            total: how many there have been in all.
            now_s: running seconds.
        """
        self._seen.append((now_s, total))
        while len(self._seen) > 1 and self._seen[1][0] <= now_s - _HOUR_S:
            self._seen.popleft()
        return total - self._seen[0][1]
