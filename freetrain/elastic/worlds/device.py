"""This worker's device: which one it is, whether it computes, and what becomes of the memory that steps free."""

from __future__ import annotations

import ctypes
import mmap
import os
import queue
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch

from freetrain.elastic.errors import BrokenDeviceError, as_exit
from freetrain.elastic.on_disk.members import LOCAL_RANK_VARIABLE
from freetrain.errors import ExitCode

_SIDE = 256
_COPIED_BYTES = 64 << 20
# The first use of a device in a process takes some seconds, more where many start at once.
_EXAMINE_TIMEOUT_S = 60.0
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_NEVER = -1
# The largest threshold that glibc chooses by itself: blocks beyond that would leave gaps between them.
_MAX_KEPT_BYTES = 32 << 20
CHOSEN_BY = ("GLIBC_TUNABLES", "MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_")


def device() -> torch.device:
    """This worker's GPU, or the CPU where there is none; makes it the current one."""
    if not torch.cuda.is_available():
        return torch.device("cpu")
    index = int(os.environ.get(LOCAL_RANK_VARIABLE, "0")) % torch.cuda.device_count()
    torch.cuda.set_device(index)
    return torch.device("cuda", index)


def device_of(module: torch.nn.Module) -> torch.device:
    """Device of the model, which is that of its first parameter; the CPU if it has none."""
    first = next(module.parameters(), None)
    return torch.device("cpu") if first is None else first.device


def sum_device(module: torch.nn.Module) -> torch.device:
    """Device on which gradients are summed: the first GPU that has parameters, else the CPU."""
    on_gpus = (parameter.device for parameter in module.parameters() if parameter.is_cuda)
    return next(on_gpus, torch.device("cpu"))


def backend_for(device: torch.device) -> str:
    """Gloo for control always; NCCL for what lives on a GPU."""
    return "gloo" if device.type == "cpu" else "cpu:gloo,cuda:nccl"


def check_device(device: torch.device) -> None:
    """Try the device; raises BrokenDeviceError if it does not compute."""
    # The computer's own processors have shown that they compute by coming here.
    fault = None if device.type == "cpu" else fault_of(device)
    if fault is None:
        return
    error = BrokenDeviceError(
        f"this worker does not join: {device} of {socket.gethostname()} {fault.reason}.",
        "The others train on without it. Look at nvidia-smi and the kernel's log (Xid) of this node.",
    )
    if fault.is_hung:
        as_exit(error)
        # Python would wait at its end for the thread that hangs in the driver.
        os._exit(ExitCode.FAILED)
    raise error


@dataclass(frozen=True, slots=True)
class DeviceFault:
    """A fault of a device."""

    reason: str  # in words
    is_hung: bool = False  # a call into its driver does not come back


def fault_of(
    device: torch.device,
    examine: Callable[[torch.device], str | None] | None = None,
    patience_s: float = _EXAMINE_TIMEOUT_S,
) -> DeviceFault | None:
    """The fault of the device, as an examination finds it within this time; None: it computes."""
    answers: queue.SimpleQueue[str | None] = queue.SimpleQueue()

    def answer() -> None:
        try:
            answers.put((examine or product_and_copies)(device))
        except RuntimeError as error:
            answers.put(f"fails: {str(error).splitlines()[0]}")

    threading.Thread(target=answer, name="freetrain-health", daemon=True).start()
    try:
        reason = answers.get(timeout=patience_s)
    except queue.Empty:
        return DeviceFault(f"has not come to the end of a small product within {patience_s:g} s", is_hung=True)
    return None if reason is None else DeviceFault(reason)


def product_and_copies(device: torch.device) -> str | None:
    """A product of whole numbers, which is exact on any device, and a copy to the device and back."""
    # Sums of 256 products below 37 are exact in float32, and the factors also in TF32 or bfloat16.
    numbers = (torch.arange(_SIDE * _SIDE) % 7).to(torch.float32).reshape(_SIDE, _SIDE)
    if not torch.equal((numbers.to(device) @ numbers.to(device)).cpu(), numbers @ numbers):
        return "computes a product of small numbers wrongly"
    pattern = torch.arange(_COPIED_BYTES // 8)
    if not torch.equal(pattern.to(device).cpu(), pattern):
        return "does not keep what is copied to it"
    return None


def keep_memory() -> None:
    """Let glibc keep what a step frees until :func:`give_back_memory`, unless the user has chosen otherwise."""
    # It would give much back at once, and the next step would get it again page by page: half of the time of an
    # optimizer's step on a CPU.
    choose = _of_libc("mallopt")
    if choose is not None and not any(name in os.environ for name in CHOSEN_BY):
        # Setting either of them ends glibc's own adjusting of both: see mallopt(3).
        choose(_M_MMAP_THRESHOLD, _MAX_KEPT_BYTES)
        choose(_M_TRIM_THRESHOLD, _NEVER)


def give_back_memory() -> None:
    """Let glibc return what is free, meanwhile; other allocators return it by themselves, or cannot."""
    trim = _of_libc("malloc_trim")
    if trim is not None:
        threading.Thread(target=trim, args=(0,), name="freetrain-memory", daemon=True).start()


def give_back_pages(tensor: torch.Tensor) -> None:
    """Let the system have the memory of a tensor that is held, but whose values are not needed: they become 0."""
    first, end = tensor.data_ptr(), tensor.data_ptr() + tensor.nbytes
    first, end = -(-first // mmap.PAGESIZE) * mmap.PAGESIZE, end // mmap.PAGESIZE * mmap.PAGESIZE
    advise = _of_libc("madvise")
    if advise is not None and tensor.device.type == "cpu" and tensor.is_contiguous() and first < end:
        # Refused for memory of unusual kinds, which then stays.
        advise(ctypes.c_void_p(first), ctypes.c_size_t(end - first), mmap.MADV_DONTNEED)


@lru_cache(maxsize=3)
def _of_libc(name: str) -> Any:
    """The function of that name; None: there is none here."""
    try:
        return getattr(ctypes.CDLL(None), name, None)
    except OSError:  # a Python that is linked statically
        return None
