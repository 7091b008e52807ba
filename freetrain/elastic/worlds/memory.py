"""Giving memory back to the system: an allocator may keep what every world leaves behind."""

from __future__ import annotations

import ctypes
import threading
from functools import lru_cache
from typing import Any


def give_back_memory() -> None:
    """Let glibc return what is free, meanwhile; other allocators return it by themselves, or cannot."""
    trim = _malloc_trim()
    if trim is not None:
        threading.Thread(target=trim, args=(0,), name="freetrain-memory", daemon=True).start()


@lru_cache(maxsize=1)
def _malloc_trim() -> Any:
    try:
        return getattr(ctypes.CDLL(None), "malloc_trim", None)
    except OSError:  # a Python that is linked statically
        return None
