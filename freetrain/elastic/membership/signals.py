"""Signals that ask a node to leave are the agent's business, not that of its workers."""

from __future__ import annotations

import os
import signal
import threading
from types import FrameType

from freetrain.elastic.membership.identity import AGENT_VARIABLE

_THE_AGENTS = (signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2)


def leave_signals_to_agent() -> None:
    """Go on when told to leave, in a process that an agent watches: it says when, at the next step boundary.

    Some Slurms signal every process of a step (proctrack/linuxproc), others the one that srun started alone
    (proctrack/cgroup). What the script does itself on a signal stays as it is.
    """
    if not os.environ.get(AGENT_VARIABLE) or threading.current_thread() is not threading.main_thread():
        return
    worker = os.getpid()

    def go_on(number: int, _frame: FrameType | None) -> None:
        if os.getpid() != worker:  # forked, as by a data loader, which may end it in this way
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)

    for number in _THE_AGENTS:
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, go_on)
