"""Orders to a Slurm that is busy: it says so, and is asked again in a moment."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from freetrain.slurm.commands import Command
from freetrain.slurm.errors import SlurmBusyError
from freetrain.slurm.gateway import Gateway

PAUSES_S = (0.2, 0.5, 1.0)
"""Of the daemon, for which more is waiting than one order."""

USERS_PAUSES_S = (*PAUSES_S, 2.0, 4.0, 8.0)
"""Of a user's command: a job that has just been submitted can be changed only when accounting knows it."""


def perform_patiently(
    gateway: Gateway,
    command: Command,
    stdin: str = "",
    sleep: Callable[[float], None] = time.sleep,
    pauses_s: Sequence[float] = PAUSES_S,
) -> str:
    """What Slurm printed; a busy one is asked again after each of the pauses.

    Raises:
        SlurmError: see :meth:`freetrain.slurm.gateway.Gateway.perform`.
    """
    for pause_s in pauses_s:
        try:
            return gateway.perform(command, stdin)
        except SlurmBusyError:
            sleep(pause_s)
    return gateway.perform(command, stdin)
