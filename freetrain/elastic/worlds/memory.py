"""What steps free is kept for the next step, and given back to the system when a world has ended."""

from __future__ import annotations

import ctypes
import mmap
import os
import threading
from functools import lru_cache
from typing import Any

import torch

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_NEVER = -1
_LARGEST_KEPT_BYTES = 32 << 20
"""As large as glibc lets it become by itself: blocks beyond that would leave gaps between them."""
CHOSEN_BY = ("GLIBC_TUNABLES", "MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_")


def keep_memory() -> None:
    """Let glibc keep what a step frees until :func:`give_back_memory`, unless the user has chosen otherwise.

    It would give much of it back at once, and the next step would have to get it again, page by page: half of the
    time of an optimizer's step on a CPU.
    """
    choose = _of_libc("mallopt")
    if choose is not None and not any(name in os.environ for name in CHOSEN_BY):
        choose(_M_MMAP_THRESHOLD, _LARGEST_KEPT_BYTES)
        choose(_M_TRIM_THRESHOLD, _NEVER)


def give_back_memory() -> None:
    """Let glibc return what is free, meanwhile; other allocators return it by themselves, or cannot."""
    trim = _of_libc("malloc_trim")
    if trim is not None:
        threading.Thread(target=trim, args=(0,), name="freetrain-memory", daemon=True).start()


def give_back_pages(tensor: torch.Tensor) -> None:
    """Let the system have the memory of a tensor that is held, but whose values nobody needs: they become 0."""
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
