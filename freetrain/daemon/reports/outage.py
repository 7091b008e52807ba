"""Slurm does not answer: said once, and then now and again."""

from __future__ import annotations

import logging
import time

from freetrain.slurm.errors import SlurmError

log = logging.getLogger(__name__)

_AGAIN_S = 600.0


class Outage:
    """How long Slurm has not answered.

    Attributes:
        failures: how many looks in a row it has not answered; 0: it does answer.
    """

    def __init__(self) -> None:
        self.failures = 0
        self._since_s: float | None = None
        self._said_s = 0.0

    def goes_on(self, error: SlurmError) -> None:
        """Slurm does not answer, or not in a way that can be understood."""
        self.failures += 1
        now_s = time.monotonic()
        if self._since_s is None:
            self._since_s = self._said_s = now_s
            log.warning("%s Nothing is concluded from that, and nothing done.", error.what)
        elif now_s - self._said_s >= _AGAIN_S:
            self._said_s = now_s
            log.warning("Slurm has not answered for %.0f s", now_s - self._since_s)

    @property
    def lasts_s(self) -> float:
        """For how long it has lasted so far; 0: there is none."""
        return 0.0 if self._since_s is None else time.monotonic() - self._since_s

    def ends(self) -> None:
        """Slurm has answered."""
        self.failures = 0
        if self._since_s is not None:
            log.info("Slurm answers again after %.0f s", time.monotonic() - self._since_s)
            self._since_s = None
