"""Lending paused by itself: logged once when that begins, and once when it ends, in the log and in the audit."""

from __future__ import annotations

import logging

from freetrain.lending.back_off import BackOff, Cause
from freetrain.store.ledger import Ledger

log = logging.getLogger(__name__)


class BackOffs:
    """What was logged last.

    Args:
        ledger: keeps the audit.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._cause: Cause | None = None

    def tell(self, now: BackOff | None, now_s: float) -> None:
        """Say what has changed; that one becomes longer is no change.

        Args:
            now: the back-off that counts; None: there is none.
            now_s: the instant of the look, UTC epoch seconds.
        """
        cause = now.cause if now else None
        if cause == self._cause:
            return
        self._cause = cause
        if now is None:
            log.info("the back-off has ended")
            self._ledger.record_command(now_s, (), "back off", None, "ended")
        else:
            log.warning("nothing is lent, and what is lent is given back: %s", now.sentence)
            self._ledger.record_command(now_s, (), "back off", None, now.sentence)
