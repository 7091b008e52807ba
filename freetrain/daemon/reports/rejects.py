"""Lines of Slurm's answers that were not understood: each is logged once."""

from __future__ import annotations

import logging
from collections.abc import Iterable

log = logging.getLogger(__name__)

_MOST_AT_ONCE, _MOST_REMEMBERED = 10, 1000


class Rejects:
    """Which lines were reported."""

    def __init__(self) -> None:
        self._told: dict[str, None] = {}

    def tell(self, lines: Iterable[str]) -> None:
        """Say those that are new, but only the first few if there are many."""
        new = [line for line in dict.fromkeys(lines) if line not in self._told]
        for line in new[:_MOST_AT_ONCE]:
            log.warning("not understood, and left aside: %s", line)
        if len(new) > _MOST_AT_ONCE:
            log.warning("%d more lines of Slurm's were not understood", len(new) - _MOST_AT_ONCE)
        self._told |= dict.fromkeys(new)
        for line in list(self._told)[: max(0, len(self._told) - _MOST_REMEMBERED)]:
            del self._told[line]
