"""The one place that gives orders to Slurm; each order is kept before it is given."""

from __future__ import annotations

import logging
import re
import shlex
import time
from collections.abc import Callable, Sequence
from enum import StrEnum

from freetrain.core.cluster import Snapshot
from freetrain.core.fragment import Fragment
from freetrain.slurm.errors import SlurmBusyError, SlurmError, SlurmRefusedError
from freetrain.slurm.gateway import Gateway
from freetrain.slurm.launcher import Order
from freetrain.store.ledger import DAEMON, DONE, UNKNOWN, Ledger
from freetrain.store.tables import CommandRow

log = logging.getLogger(__name__)

# An order names jobs and arrays between these: of ``101_[0,2]`` the array counts.
_SEPARATORS = re.compile(r"[\s,=]+|_\[")
_MOST_SHOWN = 5
# A person's command waits for each answer of Slurm's and for the database: until then it may still be at work.
_LONGEST_COMMAND_S = 600.0


class Mode(StrEnum):
    """Extent to which the daemon acts: not at all, by advice in the log and the audit, or by orders to Slurm."""

    OBSERVE = "observe"
    ADVISE = "advise"
    ACT = "act"


class AuditedOrders:
    """Gives orders to Slurm, each with a row in the audit.

    1. An order is written into the audit, its result unknown.
    2. The order is given.
    3. The result is written down. If the daemon ended in between it stays unknown until :meth:`Executor.settle`.
    """

    def __init__(
        self, gateway: Gateway, ledger: Ledger, clock_s: Callable[[], float] = time.time,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:  # fmt: skip
        self._gateway = gateway
        self._ledger = ledger
        self._clock_s = clock_s
        self._sleep = sleep

    def give(self, order: Order, decision: str | None = None) -> str:
        """Give an order, and return what Slurm printed.

        Raises:
            SlurmError: see :meth:`freetrain.slurm.gateway.Gateway.perform`.
        """
        number = self.record(order, decision, UNKNOWN)
        try:
            printed = self._gateway.perform_patiently(order.command, order.stdin, self._sleep)
        except SlurmError as error:
            self._ledger.complete_command(number, error.what, error.return_code)
            raise
        self._ledger.complete_command(number, DONE, 0)
        return printed

    def record(self, order: Order, decision: str | None, result: str) -> int:
        """Write an order into the audit, and return its number there."""
        return self._ledger.record_command(self._clock_s(), order.command, order.why, decision, result)


class Executor:
    """Carries out orders, as far as the mode allows.

    What became of an order that the daemon's end left unknown, :meth:`settle` writes at the next look as Slurm
    shows it then; of people's commands, too, once none can be at work any more.
    """

    def __init__(
        self, gateway: Gateway, ledger: Ledger, mode: Mode,
        clock_s: Callable[[], float] = time.time, sleep: Callable[[float], None] = time.sleep,
    ) -> None:  # fmt: skip
        self._orders = AuditedOrders(gateway, ledger, clock_s, sleep)
        self._ledger = ledger
        self._clock_s = clock_s
        self._advised: dict[Order, float] = {}
        self.mode = mode

    @property
    def acts(self) -> bool:
        """Whether orders have an effect."""
        return self.mode is Mode.ACT

    def carry_out(self, order: Order, decision: str | None = None) -> str | None:
        """Carry out an order, and return what Slurm printed; None: it refused, or the mode does not allow it.

        Raises:
            SlurmUnreachableError: no answer; the order may have had its effect nevertheless.
            SlurmMissingError: Slurm's commands or its configuration are gone.
        """
        if not self.acts:
            self._advise(order, decision)
            return None
        try:
            printed = self._orders.give(order, decision)
        except (SlurmRefusedError, SlurmBusyError) as error:
            log.warning("%s (to %s)", error.what, _described(order, decision))
            return None
        log.info("%s", _described(order, decision))
        return printed

    def _advise(self, order: Order, decision: str | None) -> None:
        now_s = self._clock_s()
        if self.mode is Mode.OBSERVE or now_s - self._advised.get(order, 0.0) < 3600.0:
            return
        self._advised.pop(order, None)
        self._advised[order] = now_s
        # The oldest comes first, since what is advised again is put at the end.
        while now_s - next(iter(self._advised.values())) >= 3600.0:
            del self._advised[next(iter(self._advised))]
        log.info("would %s: %s", _described(order, decision), shlex.join(order.command))
        self._orders.record(order, decision, "advised only")

    def settle(self, snapshot: Snapshot, fragments: Sequence[Fragment]) -> None:
        """Write down, for orders whose result is unknown, what Slurm shows of their jobs."""
        for row in self._ledger.unknown_commands():
            if row.actor == DAEMON or snapshot.time_s - row.time_s > _LONGEST_COMMAND_S:
                self._ledger.complete_command(row.id, _what_slurm_shows(row, snapshot, fragments), None)


def _what_slurm_shows(row: CommandRow, snapshot: Snapshot, fragments: Sequence[Fragment]) -> str:
    """Sentence on the jobs that an order names, or, where it names none, on those that its decision lent."""
    words = {word for argument in row.argv for word in _SEPARATORS.split(argument)}
    named = [job for job in snapshot.jobs if job.id in words or job.array in words]
    lent = {
        fragment.job for fragment in fragments if row.decision is not None and fragment.decision == row.decision
    }
    jobs = named or [job for job in snapshot.jobs if job.id in lent]
    shown = [f"{job.id} {job.state}" + (f" on {','.join(job.nodes)}" if job.nodes else "") for job in jobs]
    more = f" and {len(shown) - _MOST_SHOWN} more" if len(shown) > _MOST_SHOWN else ""
    then = ", ".join(shown[:_MOST_SHOWN]) + more or "none of its jobs"
    who = "the daemon" if row.actor == DAEMON else "the command"
    return f"{who} ended before it knew" + (f"; then Slurm showed {then}" if row.argv else "")


def _described(order: Order, decision: str | None) -> str:
    """Order in words, for the log: its purpose, and its decision as the audit and ``explain`` call it."""
    return order.why if decision is None else f"{order.why}, by decision {decision}"
