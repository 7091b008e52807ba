"""A training on another host: in a network namespace that ``ip netns add`` has made."""

from __future__ import annotations

import ctypes
import os
import runpy
import sys

host, script = sys.argv[1:]
libc = ctypes.CDLL(None, use_errno=True)
if libc.setns(os.open(f"/run/netns/{host}", os.O_RDONLY), 0) != 0:
    raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), host)
runpy.run_path(script, run_name="__main__")
