"""The way to SQLite: connections, their settings and their transactions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import quote

from sqlalchemy import URL, Connection, Engine, create_engine, event
from sqlalchemy.pool import NullPool

BUSY_TIMEOUT_S = 10.0
"""How long a transaction waits for another process's to end; freetrain's own take milliseconds."""


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
        json_serializer=_to_json,
    )
    event.listen(engine, "connect", _configure)
    event.listen(engine, "begin", _begin)
    return engine


def make_migration_engine(path: Path) -> Engine:
    """An engine that lets a table be replaced although others refer to it.

    alembic changes a table by copying it and dropping the old one, which would delete all rows that refer
    to it; SQLite allows no change of this setting within a transaction.
    """
    engine = make_engine(path)
    event.listen(engine, "connect", _allow_broken_references)
    return engine


def for_writing(engine: Engine) -> Engine:
    """The same engine, whose transactions take the write lock at once.

    A transaction that reads first and writes later would fail, without waiting, when another process wrote
    in between.
    """
    return engine.execution_options(writes=True)


def _configure(connection: Any, _record: object) -> None:
    connection.execute("PRAGMA foreign_keys = ON")
    # For a new file only: decisions of 2 kB would waste a quarter of SQLite's usual 4 kB pages.
    connection.execute("PRAGMA page_size = 16384")
    # NORMAL would lose the last transactions in a power cut: what the daemon asked of Slurm, and the audit of it.
    connection.execute("PRAGMA synchronous = FULL")


def _allow_broken_references(connection: Any, _record: object) -> None:
    connection.execute("PRAGMA foreign_keys = OFF")


def _begin(connection: Connection) -> None:
    writes = connection.get_execution_options().get("writes", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def _to_json(value: object) -> str:
    return json.dumps(value, default=_plain, ensure_ascii=False)


def _plain(value: Any) -> object:
    """NumPy's numbers as Python's, anything else (paths, dates) as text."""
    return value.item() if hasattr(value, "item") else str(value)
