"""How long things take: the daemon's own pace, Slurm and its backfill cycles, and the start of a training."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, inf

_LIMITS_EVERY_S = 30.0
"""``PERIODIC_TIMEOUT`` in ``src/slurmctld/controller.c`` of Slurm 22.05."""


@dataclass(frozen=True, slots=True)
class Wakes:
    """How long it takes until a look knows what has happened, as measured on virtual sites of 16 nodes.

    Attributes:
        submission_s: from a submission: half of 374 were known after this time, counted from the full second that
            ``sacct`` names.
        end_s: from the end of a job: the mean of 589.
    """

    submission_s: float = 0.7
    end_s: float = 0.4


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds, as they were measured on a Slurm 22.05 with nodes of one virtual machine.

    Attributes:
        poll_s: from one look to the next.
        wakes: how quickly it looks when something happens; None: only polls look.
        order_s: from the order until Slurm has it, the mean of 32 for up to six nodes each.
        launch_s: from the order until a fragment runs, the mean of 982; while a job of the site waits only the
            next of Slurm's backfill cycles starts it that finds it there, since its partition comes after the
            site's.
        boot_s: from then until the node trains, where the trainer does not say: Python, torch, the data set, the
            connection to the others.
        leave_s: from the order to end a fragment until its node is free.
        evict_s: the same where Slurm takes the node for a job that starts.
    """

    poll_s: float = 10.0
    wakes: Wakes | None = None
    order_s: float = 0.5
    launch_s: float = 1.3
    boot_s: float = 8.0
    leave_s: float = 0.5
    evict_s: float = 1.0

    def limit_checked_s(self, over_s: float) -> float:
        """When Slurm ends what has reached its time limit: it looks for that every 30 s."""
        return ceil(over_s / _LIMITS_EVERY_S) * _LIMITS_EVERY_S if over_s < inf else inf


class BackfillCycles:
    """When they begin.

    Slurm looks once a second whether the interval is over and anything has changed since it last planned
    (``backfill_agent`` in ``src/plugins/sched/backfill/backfill.c`` of Slurm 22.05). So on a busy machine one
    cycle follows the other, after a quiet while a change is answered within a second, and no clock sets their
    phase.
    """

    def __init__(self, interval_s: float, begin_s: float) -> None:
        self._interval_s = interval_s
        self._last_s = self._next_s = begin_s

    def note_change(self, at_s: float) -> None:
        """Something changes: a job comes, starts or ends, or an order reaches Slurm."""
        if self._next_s <= at_s:
            self._last_s = self._next_s
        if self._next_s == self._last_s:
            # Slurm looks at full seconds since the last cycle.
            self._next_s += max(self._interval_s, ceil(at_s - self._last_s))

    def last_s(self, now_s: float) -> float:
        """The one that began last, this moment included."""
        return self._next_s if self._next_s <= now_s else self._last_s

    @property
    def next_s(self) -> float:
        """The one that answers the last change; it may have begun already."""
        return self._next_s
