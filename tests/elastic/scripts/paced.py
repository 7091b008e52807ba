"""Runs a script of ``elastic.Run`` in which N workers take an N-th of ALONE_S for a step, whatever the machine.

Most of that time they sleep, so that tests beside them have the cores.
"""

from __future__ import annotations

import functools
import runpy
import sys
import time
from typing import Any

from freetrain.elastic.script.run import Run

ALONE_S = 0.4
begin = Run.__init__


@functools.wraps(begin)
def begin_paced(run: Run, *arguments: Any, on_step: Any, **options: Any) -> None:
    def rest(result: Any) -> None:
        on_step(result)
        time.sleep(ALONE_S / result.world)

    begin(run, *arguments, on_step=rest, **options)


Run.__init__ = begin_paced
del sys.argv[0]
runpy.run_path(sys.argv[0], run_name="__main__")
