"""The one place from which Slurm is told to do something; what was told is kept."""

from __future__ import annotations

import logging
import shlex
import time
from collections.abc import Callable
from enum import StrEnum

from freetrain.slurm.errors import SlurmBusyError, SlurmError, SlurmRefusedError
from freetrain.slurm.gateway import Gateway
from freetrain.slurm.launcher import Order
from freetrain.slurm.patience import perform_patiently
from freetrain.store.ledger import Ledger

log = logging.getLogger(__name__)


class Mode(StrEnum):
    """How much the daemon may do."""

    OBSERVE = "observe"
    ADVISE = "advise"
    ACT = "act"


class Executor:
    """Carries out orders, as far as the mode allows.

    Args:
        gateway: the way to Slurm.
        ledger: keeps the audit.
        mode: how much may be done.
        clock_s: UTC epoch seconds.
        sleep: waits before a busy Slurm is asked again.
    """

    def __init__(
        self,
        gateway: Gateway,
        ledger: Ledger,
        mode: Mode,
        clock_s: Callable[[], float] = time.time,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._gateway = gateway
        self._ledger = ledger
        self._clock_s = clock_s
        self._sleep = sleep
        self._advised: dict[Order, float] = {}
        self.mode = mode

    @property
    def acts(self) -> bool:
        """Whether orders have an effect."""
        return self.mode is Mode.ACT

    def carry_out(self, order: Order, decision: str | None = None) -> str | None:
        """What Slurm printed; None: it refused, or the mode does not allow it.

        Raises:
            SlurmUnreachableError: no answer; the order may have had its effect nevertheless.
            SlurmMissingError: Slurm's commands or its configuration are gone.
        """
        if not self.acts:
            self._advise(order, decision)
            return None
        try:
            said = perform_patiently(self._gateway, order.command, order.stdin, self._sleep)
        except SlurmError as error:
            self._record(order, decision, error.what, error.return_code)
            if not isinstance(error, (SlurmRefusedError, SlurmBusyError)):
                raise
            log.warning("%s (to %s)", error.what, _told(order, decision))
            return None
        self._record(order, decision, "done", 0)
        log.info("%s", _told(order, decision))
        return said

    def _advise(self, order: Order, decision: str | None) -> None:
        """Say once an hour what would have been done."""
        now_s = self._clock_s()
        if self.mode is Mode.OBSERVE or now_s - self._advised.get(order, 0.0) < 3600.0:
            return
        self._advised.pop(order, None)
        self._advised[order] = now_s
        while now_s - next(iter(self._advised.values())) >= 3600.0:  # the oldest stands first
            del self._advised[next(iter(self._advised))]
        log.info("would %s: %s", _told(order, decision), shlex.join(order.command))
        self._record(order, decision, "advised only", None)

    def _record(self, order: Order, decision: str | None, result: str, return_code: int | None) -> None:
        self._ledger.record_command(
            self._clock_s(), order.command, order.why, decision, result, return_code=return_code
        )


def _told(order: Order, decision: str | None) -> str:
    """For the log: what for, and which decision it belongs to, as the audit and ``explain`` call it."""
    return order.why if decision is None else f"{order.why}, by decision {decision}"
