"""Whether this worker's device computes: a worker whose device does not must not join: all would wait for it."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass

import torch

_SIDE = 256
_COPIED_BYTES = 64 << 20
_PATIENCE_S = 60.0
"""The first use of a device in a process takes some seconds, more where many start at once."""


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong with a device.

    Attributes:
        reason: in words.
        is_hung: whether a call into its driver does not come back, in which the process may hang when it ends.
    """

    reason: str
    is_hung: bool = False


def fault_of(
    device: torch.device,
    examine: Callable[[torch.device], str | None] | None = None,
    patience_s: float = _PATIENCE_S,
) -> Fault | None:
    """What is wrong with the device; None: it computes.

    Args:
        device: to be examined.
        examine: says what is wrong, or raises what the device's driver raises.
        patience_s: how long it may take.
    """
    answers: queue.SimpleQueue[str | None] = queue.SimpleQueue()
    looks = threading.Thread(
        target=lambda: answers.put(_answer(examine or product_and_copies, device)),
        name="freetrain-health",
        daemon=True,
    )
    looks.start()
    try:
        reason = answers.get(timeout=patience_s)
    except queue.Empty:
        return Fault(f"has not come to the end of a small product within {patience_s:g} s", is_hung=True)
    return None if reason is None else Fault(reason)


def product_and_copies(device: torch.device) -> str | None:
    """A product of whole numbers, which is exact on any device, and a copy to the device and back."""
    numbers = (torch.arange(_SIDE * _SIDE) % 7).to(torch.float32).reshape(_SIDE, _SIDE)
    if not torch.equal((numbers.to(device) @ numbers.to(device)).cpu(), numbers @ numbers):
        return "computes a product of small numbers wrongly"
    pattern = torch.arange(_COPIED_BYTES // 8)
    if not torch.equal(pattern.to(device).cpu(), pattern):
        return "does not keep what is copied to it"
    return None


def _answer(examine: Callable[[torch.device], str | None], device: torch.device) -> str | None:
    try:
        return examine(device)
    except RuntimeError as error:
        return f"fails: {str(error).splitlines()[0]}"
