"""What SQLite and the file system report, as errors of freetrain's in sentences that help."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy.exc import DBAPIError

from freetrain.errors import StateError

_BEGIN_ANEW = (
    "Move {path}, {path}-wal and {path}-shm away and start again: a new one is begun. What the daemon has lent it "
    "finds again in Slurm."
)
RECORD_HINT = "freetrain replay records one; --store or the variable FREETRAIN_STORE names another store."
"""What to do where no run is recorded."""

_ELSEWHERE = "Name another place with --store or the variable FREETRAIN_STORE."
_UNREADABLE = (
    "cannot be opened or written",
    "Check that the file and its folder belong to you and that the file system is not mounted read-only, "
    "or name another place with --store or the variable FREETRAIN_STORE.",
)
_LOCKED = ("is locked by another process", "Wait until that process is done, or end it, and try again.")
_SENTENCES = {
    sqlite3.SQLITE_FULL: ("cannot be written: the disk is full", f"Free some space. {_ELSEWHERE}"),
    sqlite3.SQLITE_BUSY: _LOCKED,
    sqlite3.SQLITE_LOCKED: _LOCKED,
    sqlite3.SQLITE_NOTADB: ("is not an SQLite database", f"Check the path. {_BEGIN_ANEW}"),
    sqlite3.SQLITE_CORRUPT: ("is damaged", _BEGIN_ANEW),
    sqlite3.SQLITE_ERROR: ("is damaged", _BEGIN_ANEW),
    sqlite3.SQLITE_READONLY: _UNREADABLE,
    sqlite3.SQLITE_CANTOPEN: _UNREADABLE,
    sqlite3.SQLITE_PERM: _UNREADABLE,
    sqlite3.SQLITE_NOMEM: ("cannot be used: memory is used up", "See what uses it on this machine."),
    sqlite3.SQLITE_IOERR: ("cannot be read or written", f"Look for disk errors in the system's log. {_ELSEWHERE}"),
}
_PASSES = frozenset(
    (
        sqlite3.SQLITE_FULL, sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_NOMEM,
        sqlite3.SQLITE_IOERR, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN,
    )
)  # fmt: skip
_NO_TABLE = "no such table"
_EMPTIED = (
    "has been removed or emptied while it was in use",
    "Start the daemon again: it begins a new one, and finds in Slurm what it has lent. The history before that "
    "is in the copies of 'freetrain db backup'.",
)


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Turn what goes wrong with the store at ``path`` into a StateError with a hint."""
    try:
        yield
    except (DBAPIError, sqlite3.Error) as error:
        said = error.orig if isinstance(error, DBAPIError) else error
        # The other kinds (a broken constraint, a wrong statement) are faults of freetrain, not of the file.
        if type(said) not in (sqlite3.OperationalError, sqlite3.DatabaseError):
            raise
        raise _state_error(path, said) from error


@contextmanager
def sensible(path: Path) -> Iterator[None]:
    """Turn values in the store at ``path`` that make no sense into a StateError: SQLite overlooks some damage."""
    try:
        yield
    except (ValueError, TypeError, KeyError) as error:
        raise StateError(
            f"The store {path} is damaged: it holds what cannot be ({error}).", begin_anew(path)
        ) from error


def begin_anew(path: Path) -> str:
    """What to do about a store that cannot be used any more."""
    return _BEGIN_ANEW.format(path=path)


def nothing_recorded(path: Path) -> StateError:
    """What to say to readers of a store that nobody has written yet."""
    return StateError(f"No run has been recorded yet: there is nothing in the store {path}.", RECORD_HINT)


def make_folder(folder: Path) -> None:
    """Create a folder and those above it.

    Raises:
        StateError: it cannot be created.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StateError(
            f"The store's folder {folder} cannot be created: {error.strerror}.", _ELSEWHERE
        ) from error


def _state_error(path: Path, error: BaseException | None) -> StateError:
    # The low byte is the kind of error; the others say in which corner of SQLite it arose.
    kind = getattr(error, "sqlite_errorcode", 0) & 0xFF
    what, hint = _SENTENCES.get(kind, ("cannot be used", _ELSEWHERE))
    if _NO_TABLE in str(error) and (not path.exists() or not path.stat().st_size):  # asking made it again, empty
        what, hint = _EMPTIED
    said = "" if kind in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_BUSY, sqlite3.SQLITE_NOTADB) else f" ({error})"
    return StateError(f"The store {path} {what}{said}.", hint.format(path=path), passes=kind in _PASSES)
