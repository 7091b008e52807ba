"""Harm: how much later one of the site's jobs started because a fragment was in its way."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Harm:
    """The delay of one job, and what it is made of.

    Attributes:
        unnoticed_s: from the moment when it would have started until freetrain, or Slurm, did something about it.
        leaving_s: until the fragments had left its nodes, a grace time included.
        window_s: until Slurm started it on the free nodes, as where it had to wait for the next backfill cycle.
        fragments: Slurm's ids of the fragments that were in its way.
    """

    job: str
    started_s: float
    unnoticed_s: float
    leaving_s: float
    window_s: float
    fragments: tuple[str, ...]

    @property
    def delay_s(self) -> float:
        """Seconds by which it started later than if nothing had been lent."""
        return self.unnoticed_s + self.leaving_s + self.window_s
