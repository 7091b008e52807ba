"""Looks that fail, since Slurm does not answer or this machine lacks something: logged once, then now and then."""

from __future__ import annotations

import logging
import time

log = logging.getLogger(__name__)

_AGAIN_S = 600.0


class Outage:
    """How long no look has succeeded.

    Attributes:
        failures: how many looks in a row have failed; 0: the last one succeeded.
    """

    def __init__(self) -> None:
        self.failures = 0
        self._since_s: float | None = None
        self._said_s = 0.0

    def goes_on(self, why: str) -> None:
        """A look has failed.

        Args:
            why: a sentence.
        """
        self.failures += 1
        now_s = time.monotonic()
        if self._since_s is None:
            self._since_s = self._said_s = now_s
            log.warning("%s Nothing is concluded from that, and nothing done.", why)
        elif now_s - self._said_s >= _AGAIN_S:
            self._said_s = now_s
            log.warning("no look has succeeded for %.0f s: %s", now_s - self._since_s, why)

    @property
    def lasts_s(self) -> float:
        """For how long it has lasted so far; 0: there is none."""
        return 0.0 if self._since_s is None else time.monotonic() - self._since_s

    def ends(self) -> None:
        """A look has succeeded."""
        self.failures = 0
        if self._since_s is not None:
            log.info("looks succeed again after %.0f s", time.monotonic() - self._since_s)
            self._since_s = None
