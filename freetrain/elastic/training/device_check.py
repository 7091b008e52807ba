"""Whether a worker's device computes, before anybody waits for it."""

from __future__ import annotations

import os
import socket

import torch

from freetrain.elastic.errors import BrokenDeviceError, as_exit
from freetrain.elastic.worlds.health import fault_of
from freetrain.errors import ExitCode


def check_device(device: torch.device) -> None:
    """Try the device; the computer's own processors have shown that they compute by coming here.

    Raises:
        BrokenDeviceError: it does not compute.
    """
    fault = None if device.type == "cpu" else fault_of(device)
    if fault is None:
        return
    error = BrokenDeviceError(
        f"this worker does not join: {device} of {socket.gethostname()} {fault.reason}.",
        "The others train on without it. Look at nvidia-smi and the kernel's log (Xid) of this node.",
    )
    if fault.is_hung:
        as_exit(error)
        os._exit(ExitCode.FAILED)
    raise error
