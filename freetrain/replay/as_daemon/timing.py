"""How long things take: what the daemon's own pace, Slurm, and the start of a training cost."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds, as they were measured on a Slurm 22.05 with nodes of one virtual machine.

    Attributes:
        poll_s: from one look to the next.
        wake_s: from a submission or an end of the site's to the look that it causes; None: only polls look.
        launch_s: from the order until a fragment runs.
        backfill_s: from one backfill cycle of Slurm's to the next; while a job of the site waits, only these start
            fragments, since their partition comes after the site's.
        boot_s: from then until the node trains: Python, torch, the data set, the connection to the others.
        leave_s: from the order to end a fragment until its node is free.
        evict_s: the same where Slurm takes the node for a job that starts.
    """

    poll_s: float = 10.0
    wake_s: float | None = None
    launch_s: float = 1.5
    backfill_s: float = 30.0
    boot_s: float = 8.0
    leave_s: float = 0.5
    evict_s: float = 1.0

    def runs_s(self, asked_s: float, somebody_waits: bool) -> float:
        """When a fragment runs that was asked for then."""
        soonest_s = asked_s + self.launch_s
        return ceil(soonest_s / self.backfill_s) * self.backfill_s if somebody_waits else soonest_s
