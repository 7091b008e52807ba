"""The way to SQLite: connections, their settings and transactions, and errors in sentences that help."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

from sqlalchemy import URL, Connection, Engine, create_engine, event
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session
from sqlalchemy.pool import NullPool

from freetrain.errors import StateError, explained

BUSY_TIMEOUT_S = 10.0
"""Seconds that a transaction waits for another process's to end; freetrain's own take milliseconds."""
_BEGIN_ANEW = (
    "Move {path}, {path}-wal and {path}-shm away and start again: a new one is begun. What the daemon has lent it "
    "finds again in Slurm."
)
RECORD_HINT = "freetrain replay records one; --store or the variable FREETRAIN_STORE names another store."
"""The hint where no run is recorded."""
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


def make_engine(path: Path, read_only: bool = False) -> Engine:
    """An engine for the store at ``path``; it opens nothing yet, and writes nothing if it is for reading only."""
    url = URL.create("sqlite", database=str(path))
    if read_only:
        query = {"mode": "ro", "uri": "true"}
        url = URL.create("sqlite", database=f"file:{quote(str(path.absolute()))}", query=query)
    engine = create_engine(
        url,
        # isolation_level: Python's sqlite3 shall begin no transactions, _begin does.
        connect_args={"timeout": BUSY_TIMEOUT_S, "isolation_level": None},
        poolclass=NullPool,
        json_serializer=partial(json.dumps, default=_plain, ensure_ascii=False),
    )
    event.listen(engine, "connect", _configure)
    event.listen(engine, "begin", _begin)
    return engine


def make_migration_engine(path: Path) -> Engine:
    """An engine that lets a table be replaced although others refer to it."""
    engine = make_engine(path)
    # alembic changes a table by copying it and dropping the old one, which would delete all rows that refer to it.
    # SQLite allows no change of this setting within a transaction.
    event.listen(engine, "connect", lambda connection, _: connection.execute("PRAGMA foreign_keys = OFF"))
    return engine


def for_writing(engine: Engine) -> Engine:
    """An engine whose transactions take the write lock at once."""
    # A transaction that reads first and writes later fails, without waiting, when another process wrote in
    # between.
    return engine.execution_options(writes=True)


class Database:
    """A store's file: each ``with`` is one transaction, and what goes wrong with it comes out as a StateError."""

    def __init__(self, engine: Engine, path: Path) -> None:
        self.engine = engine
        self.path = path

    @contextmanager
    def reading(self) -> Iterator[Session]:
        """Read objects; values in them that make no sense are damage, too."""
        with as_state_errors(self.path), sensible(self.path), Session(self.engine) as session:
            yield session

    @contextmanager
    def writing(self) -> Iterator[Session]:
        """Read and write objects, which are kept when the block ends well."""
        with as_state_errors(self.path), Session(for_writing(self.engine)) as session, session.begin():
            yield session

    @contextmanager
    def writing_rows(self) -> Iterator[Connection]:
        """Write rows without a session, which takes longer; they are kept when the block ends well."""
        with as_state_errors(self.path), for_writing(self.engine).begin() as connection:
            yield connection

    @contextmanager
    def connected(self) -> Iterator[Connection]:
        """Read rows without a session, which would look at each of very many."""
        with as_state_errors(self.path), sensible(self.path), self.engine.connect() as connection:
            yield connection


def _configure(connection: Any, _record: object) -> None:
    connection.execute("PRAGMA foreign_keys = ON")
    # For a new file only: decisions of 2 kB would waste a quarter of SQLite's usual 4 kB pages.
    connection.execute("PRAGMA page_size = 16384")
    # NORMAL would lose the last transactions in a power cut: what the daemon asked of Slurm, and the audit of it.
    connection.execute("PRAGMA synchronous = FULL")


def _begin(connection: Connection) -> None:
    writes = connection.get_execution_options().get("writes", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def _plain(value: Any) -> object:
    """NumPy's numbers as Python's, anything else (paths, dates) as text."""
    return value.item() if hasattr(value, "item") else str(value)


@contextmanager
def as_state_errors(path: Path) -> Iterator[None]:
    """Turn what goes wrong with the store at ``path`` into a StateError with a hint."""
    try:
        yield
    except (DBAPIError, sqlite3.Error) as error:
        cause = error.orig if isinstance(error, DBAPIError) else error
        # The other kinds (a broken constraint, a wrong statement) are faults of freetrain, not of the file.
        if type(cause) not in (sqlite3.OperationalError, sqlite3.DatabaseError):
            raise
        # The low byte is the kind of error; the others say in which corner of SQLite it arose.
        kind = getattr(cause, "sqlite_errorcode", 0) & 0xFF
        what, hint = _SENTENCES.get(kind, ("cannot be used", _ELSEWHERE))
        # A file that was removed: opening it has made it again, empty.
        if _NO_TABLE in str(cause) and (not path.exists() or not path.stat().st_size):
            what, hint = _EMPTIED
        is_plain = kind in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_BUSY, sqlite3.SQLITE_NOTADB)
        details = "" if is_plain else f" ({cause})"
        text = f"The store {path} {what}{details}."
        raise StateError(text, hint.format(path=path), passes=kind in _PASSES) from error


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
    """The hint for a store that cannot be used any more."""
    return _BEGIN_ANEW.format(path=path)


def nothing_recorded(path: Path) -> StateError:
    """The error for readers of a store that has not been written yet."""
    return StateError(f"No run has been recorded yet: there is nothing in the store {path}.", RECORD_HINT)


def make_folder(folder: Path) -> None:
    """Create a folder and those above it."""
    with explained(f"The store's folder {folder} cannot be created", _ELSEWHERE, StateError):
        folder.mkdir(parents=True, exist_ok=True)
