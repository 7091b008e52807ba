"""Giving memory back to the system: what an allocator keeps of each world, what a sum without end holds."""

from __future__ import annotations

import ctypes
import mmap
import threading
from functools import lru_cache
from typing import Any

import torch


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


@lru_cache(maxsize=2)
def _of_libc(name: str) -> Any:
    """The function of that name; None: there is none here."""
    try:
        return getattr(ctypes.CDLL(None), name, None)
    except OSError:  # a Python that is linked statically
        return None
