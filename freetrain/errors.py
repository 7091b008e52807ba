"""Errors that a user can do something about."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import IntEnum


class ExitCode(IntEnum):
    """Exit statuses of freetrain; numbers as in sysexits.h where it has one."""

    OK = 0
    FAILED = 1
    USAGE = 2
    UNREACHABLE = 69
    STATE_IO = 74
    TRY_AGAIN = 75
    NOT_ALLOWED = 77
    CONFIGURATION = 78


class FreetrainError(Exception):
    """Error that the user, not the developer, can mend.

    Args:
        what: one sentence on what happened and what it means.
        hint: one sentence on what to do about it; empty where there is nothing to add.
        exit_code: the status that a command ends with.
    """

    def __init__(self, what: str, hint: str = "", exit_code: ExitCode = ExitCode.FAILED) -> None:
        super().__init__(what)
        self.what = what
        self.hint = hint
        self.exit_code = exit_code


class InputError(FreetrainError):
    """Input of the user (a file, an option, a problem) that cannot be used as it stands."""

    def __init__(self, what: str, hint: str = "") -> None:
        super().__init__(what, hint, ExitCode.USAGE)


class StateError(FreetrainError):
    """freetrain's own state (the store) cannot be read or written.

    Args:
        exit_code: another status where trying again cannot help.
        passes: whether it may be well at another try, as where the disk is full or the file is locked.
    """

    def __init__(
        self, what: str, hint: str = "", exit_code: ExitCode = ExitCode.STATE_IO, passes: bool = False
    ) -> None:
        super().__init__(what, hint, exit_code)
        self.passes = passes


@contextmanager
def explained(
    what: str, hint: str = "", kind: Callable[[str, str], FreetrainError] = InputError
) -> Iterator[None]:
    """Explains an OSError or a ValueError of the block: what could not be done, then the reason.

    Raises:
        FreetrainError: of this kind, in place of the error.
    """
    try:
        yield
    except (OSError, ValueError) as error:
        raise kind(f"{what}: {getattr(error, 'strerror', None) or error}.", hint) from error
