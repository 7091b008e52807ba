"""The same stamps of every system's steps."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

FOLDER_VARIABLE = "BENCH_FOLDER"


class Stamps:
    """Notes when each step began and ended, on a clock that all processes of a machine share."""

    def __init__(self) -> None:
        # Written without a buffer, so that a killed process takes no step with it.
        self._log = os.open(Path(os.environ[FOLDER_VARIABLE]) / "steps", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        self._began_s = 0.0
        self._ended_s = 0.0

    def begin(self) -> None:
        """A step begins."""
        self._began_s = time.monotonic()

    def end(self) -> None:
        """Its backward pass is through."""
        self._ended_s = time.monotonic()

    def write(self, step: int, ranks: int) -> None:
        """The step counts; rank 0 says so."""
        facts = {
            "number": step,
            "world": f"{os.getpid()}/{ranks}",
            "ranks": ranks,
            "pid": os.getpid(),
            "began_s": self._began_s,
            "ended_s": self._ended_s,
        }
        os.write(self._log, json.dumps(facts).encode() + b"\n")
