"""What can go wrong with a trainer, in sentences."""

from __future__ import annotations

import sys

from freetrain.errors import ExitCode, FreetrainError, InputError, StateError


class DirectoryError(StateError):
    """The trainer's directory cannot be used."""


class ForeignTrainerError(InputError):
    """The directory belongs to another trainer, or a member does not fit in with the others."""


class BrokenDeviceError(InputError):
    """This worker's device does not compute: it must not join."""


class CheckpointError(StateError):
    """A checkpoint cannot be trusted or read."""


class LostRankError(Exception):
    """A member of the world went away in the middle of a step; the runtime handles it, users never see it."""


class AbandonedError(Exception):
    """A generation was given up before its world had formed; the runtime goes on to the next one."""


class BrokenWorldError(RuntimeError):
    """Worlds break again and again although all their members are there; it ends the worker with its traceback."""


class Departed(SystemExit):
    """This worker's part in the training has ended while the training goes on elsewhere."""

    def __init__(self, reason: str, status: int = 0) -> None:
        super().__init__(status)
        self.reason = reason


EVICTED_STATUS = 75
"""Exit status of a worker that the others gave up for lost although it lived (EX_TEMPFAIL: try again)."""


def as_exit(error: FreetrainError) -> SystemExit:
    """The error as the end of a training script: its sentences on standard error, no traceback.

    The status is 1, or 74 where the trainer's directory cannot be used, which no other worker would change.
    """
    print(f"freetrain: {error.what}" + (f"\n  {error.hint}" if error.hint else ""), file=sys.stderr)
    return SystemExit(ExitCode.STATE_IO if isinstance(error, StateError) else ExitCode.FAILED)
