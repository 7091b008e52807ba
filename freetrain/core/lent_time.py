"""Lent time: node-seconds that were lent, and lost to changes. Pure."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LentTime:
    """Lent time of a range of time.

    Attributes:
        lent_s: node-seconds.
        lost_to_starts_s: of these, those lost when nodes came, the first ones or more.
        lost_to_ends_s: those lost when nodes went and others stayed: evicted, released or failed.
        starts: how often a node came.
        evictions: how often Slurm took one for the site's jobs.
    """

    lent_s: float = 0.0
    lost_to_starts_s: float = 0.0
    lost_to_ends_s: float = 0.0
    starts: int = 0
    evictions: int = 0

    @property
    def useful_s(self) -> float:
        """Node-seconds that were not lost."""
        return self.lent_s - self.lost_to_starts_s - self.lost_to_ends_s

    def __add__(self, other: LentTime) -> LentTime:
        return LentTime(
            self.lent_s + other.lent_s,
            self.lost_to_starts_s + other.lost_to_starts_s,
            self.lost_to_ends_s + other.lost_to_ends_s,
            self.starts + other.starts,
            self.evictions + other.evictions,
        )
