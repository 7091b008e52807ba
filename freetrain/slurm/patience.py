"""Orders to a Slurm that is busy: it says so, and is asked again in a moment."""

from __future__ import annotations

import time
from collections.abc import Callable

from freetrain.slurm.commands import Command
from freetrain.slurm.errors import SlurmBusyError
from freetrain.slurm.gateway import Gateway

_PAUSES_S = (0.2, 0.5, 1.0)


def perform_patiently(
    gateway: Gateway, command: Command, stdin: str = "", sleep: Callable[[float], None] = time.sleep
) -> str:
    """What Slurm printed; a busy one is told up to four times.

    Raises:
        SlurmError: see :meth:`freetrain.slurm.gateway.Gateway.perform`.
    """
    for pause_s in _PAUSES_S:
        try:
            return gateway.perform(command, stdin)
        except SlurmBusyError:
            sleep(pause_s)
    return gateway.perform(command, stdin)
