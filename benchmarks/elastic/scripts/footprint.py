"""What a worker has of the computer's memory, as it says itself."""

from __future__ import annotations

import ctypes
import json
import os
from pathlib import Path

from benchmarks.elastic.scripts.stamps import FOLDER_VARIABLE

FOOTPRINT_VARIABLE = "BENCH_FOOTPRINT"
"""Set where it is wanted."""
LOOK_AT_STEP = 8
"""Of each world: by then all that its first steps need once is there, or gone."""


class Footprint:
    """Notes once in each world how much memory is resident, and how much when free memory has been given back.

    An allocator keeps some of what is freed, more or less of it from one step to the next.
    """

    def __init__(self) -> None:
        self._is_wanted = FOOTPRINT_VARIABLE in os.environ
        self._log = Path(os.environ[FOLDER_VARIABLE]) / "footprints"
        self._steps = 0

    def enter_world(self) -> None:
        """The following steps are of another world."""
        self._steps = 0

    def note_step(self) -> None:
        """A step is complete."""
        self._steps += 1
        if self._is_wanted and self._steps == LOOK_AT_STEP:
            resident_bytes = _resident_bytes()
            ctypes.CDLL(None).malloc_trim(0)
            facts = {
                "resident_bytes": resident_bytes,
                "needed_bytes": _resident_bytes(),
                "threads": len(list(Path("/proc/self/task").iterdir())),
            }
            with self._log.open("a") as log:
                log.write(json.dumps(facts) + "\n")


def _resident_bytes() -> int:
    facts = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return 1024 * int(facts["VmRSS"].split()[0])
