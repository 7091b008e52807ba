"""Plays pyslurm, in the role that FAKE_PYSLURM names."""

from __future__ import annotations

import enum
import json
import os
import signal
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

RECORDED = Path(__file__).parents[1] / "recorded" / "pyslurm_25.11.json"
ROLE, _, FILE = os.environ["FAKE_PYSLURM"].partition(":")

__version__ = "23.2.1" if ROLE == "too old" else "25.11.2"
print("what a library prints is no answer")
os.write(1, b"nor what it writes\n")

if ROLE == "hangs at import":
    time.sleep(60)
if ROLE == "fatal at import":
    sys.exit("fatal: Unable to process configuration file")
if ROLE == "not installed":
    raise ModuleNotFoundError("No module named 'pyslurm'")


class PyslurmError(Exception):
    pass


class ReservationFlags(enum.Flag):
    MAINTENANCE = 1


class Garbled(SimpleNamespace):
    """A record whose comment is no text."""

    user_id = 0

    @property
    def comment(self) -> str:
        return b"a \xff b".decode()

    def __getattr__(self, name: str) -> str:
        return name


class Collection:
    @classmethod
    def load(cls) -> dict[int, Any]:
        if ROLE == "hangs":
            time.sleep(60)
        if ROLE == "crashes" or (ROLE == "crashes once" and not Path(FILE).exists()):
            Path(FILE or os.devnull).touch()
            os.kill(os.getpid(), signal.SIGSEGV)
        if ROLE == "of another version":
            raise PyslurmError("Incompatible versions of client and server code")
        if ROLE == "away":
            raise PyslurmError("Unable to contact slurm controller (connect failure)")
        if ROLE == "garbled":
            return {1: Garbled(flags=ReservationFlags(5))}
        whole = {} if ROLE == "empty" else json.loads(RECORDED.read_text())
        records = whole.get(cls.__name__, [])
        return {number: SimpleNamespace(user_id=0, **record) for number, record in enumerate(records)}


class Nodes(Collection):
    pass


class Jobs(Collection):
    pass


class Reservations(Collection):
    pass


class Partitions(Collection):
    pass
