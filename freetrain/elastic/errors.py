"""Errors of a trainer, with sentences for the user, and how they end a process."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from types import TracebackType

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


class OddRankError(LostRankError):
    """Another rank differs from those that were there before it, and is ended."""

    def __init__(self, what: str, *, was_there_first: bool) -> None:
        super().__init__(what)
        self.was_there_first = was_there_first  # so that it may be the others that are wrong


class OddOneOutError(InputError):
    """This rank differs from those that were there before it, so that it ends and they go on."""

    def __init__(self, what: str, *, is_new: bool) -> None:
        super().__init__(
            what,
            "All ranks have to take the same way through the script: let it follow run.step, "
            "run.batches.numbered() and what is in also={...} rather than counts of its own, and put what a "
            "newcomer must not do again under run.first_time().",
        )
        self.is_new = is_new  # it came later than others, so another one in its place would differ, too


class NotAdoptedError(SystemExit):
    """The script cannot be adopted, for a reason in words: restart mode has to do."""

    def __init__(self, reason: str) -> None:
        super().__init__(NOT_ADOPTED_STATUS)
        self.reason = reason


class AbandonedError(Exception):
    """A generation was given up before its world had formed; the runtime goes on to the next one."""


class BrokenWorldError(RuntimeError):
    """Worlds break again and again although all their members are there; it ends the worker with its traceback."""


class Departed(SystemExit):
    """This worker's part in the training has ended while the training goes on elsewhere."""

    def __init__(self, reason: str, status: int = 0, *, in_step: bool = False) -> None:
        super().__init__(status)
        self.reason = reason
        self.in_step = in_step  # it ends within a step for which other ranks did not come


# Exit statuses of workers:
EVICTED_STATUS = 75  # the others gave it up for lost although it lived (EX_TEMPFAIL: try again)
ODD_STATUS = 78  # a newcomer that differs from the others: the same script would differ again
NOT_ADOPTED_STATUS = 79  # its script cannot be adopted


@contextlib.contextmanager
def plain_errors() -> Iterator[None]:
    """Show errors in what a script gave as sentences without traceback, unless the script catches them."""
    try:
        yield
    except FreetrainError as error:
        hook, plain = sys.excepthook, error

        def show(kind: type[BaseException], raised: BaseException, trace: TracebackType | None) -> None:
            if raised is plain:
                as_exit(plain)
            else:
                hook(kind, raised, trace)

        sys.excepthook = show
        raise


def as_exit(error: FreetrainError) -> SystemExit:
    """The error as the end of a training script: its sentences on standard error, no traceback."""
    print(f"freetrain: {error.what}" + (f"\n  {error.hint}" if error.hint else ""), file=sys.stderr)
    # A status of its own: the agent must not start another one, which would differ, too.
    if isinstance(error, OddOneOutError) and error.is_new:
        return SystemExit(ODD_STATUS)
    return SystemExit(ExitCode.STATE_IO if isinstance(error, StateError) else ExitCode.FAILED)
