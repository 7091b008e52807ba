"""Looking after a store: is it whole, a copy of it, and older copies removed."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

from freetrain.errors import StateError
from freetrain.store.engine import BUSY_TIMEOUT_S, make_engine
from freetrain.store.schema import SCHEMA, copy_store, read_schema
from freetrain.store.store_errors import explained, make_folder

NO_SCHEMA = "none"
"""Instead of a schema's number: nothing is in the file yet."""

_MOST_PROBLEMS = 10
_SUFFIX = ".db"


def find_problems(path: Path) -> list[str]:
    """What is wrong with the store, in sentences; none: nothing is. Nothing is written.

    Raises:
        StateError: there is none, or it cannot be read at all.
    """
    _require(path)
    with explained(path), closing(_read_only(path)) as connection:
        said = [row[0] for row in connection.execute(f"PRAGMA integrity_check({_MOST_PROBLEMS})")]
        broken = connection.execute("PRAGMA foreign_key_check").fetchmany(_MOST_PROBLEMS)
    problems = [f"SQLite says: {line}" for line in said if line != "ok"]
    problems += [f"a row of {table} refers to one of {parent} that is not there" for table, _, parent, _ in broken]
    schema = schema_of(path)
    if schema != SCHEMA:
        is_newer = schema != NO_SCHEMA and schema > SCHEMA
        remedy = "use the newer freetrain that wrote it" if is_newer else "run 'freetrain db upgrade'"
        problems.append(f"it has schema {schema}, and this freetrain needs {SCHEMA}: {remedy}")
    return problems


def schema_of(path: Path) -> str:
    """The number of its schema, or ``NO_SCHEMA``; older ones have smaller numbers.

    Raises:
        StateError: there is no store, or it is another program's, or cannot be read.
    """
    _require(path)
    with explained(path), make_engine(path).connect() as connection:
        return read_schema(connection) or NO_SCHEMA


def back_up(path: Path, target: Path) -> None:
    """Write a whole copy, while the daemon works.

    Raises:
        StateError: the target is there already, or one of the two cannot be read or written.
    """
    _require(path)
    if target.exists():
        raise StateError(f"{target} is there already.", "Name another file.")
    make_folder(target.parent)
    with explained(path):
        copy_store(path, target)
    target.chmod(path.stat().st_mode & 0o777)


def name_of_backup(folder: Path, now_s: float) -> Path:
    """Where a copy that is made now lies, so that their names sort by time.

    Args:
        folder: of all copies.
        now_s: UTC epoch seconds.
    """
    return folder / f"freetrain-{datetime.fromtimestamp(now_s, UTC):%Y%m%dT%H%M%SZ}{_SUFFIX}"


def remove_old_backups(folder: Path, keep: int) -> list[Path]:
    """Remove all copies but so many, oldest first; which were removed."""
    copies = sorted(folder.glob(f"freetrain-*T*Z{_SUFFIX}"))
    old = copies[: max(0, len(copies) - keep)]
    for path in old:
        path.unlink(missing_ok=True)
    return old


def _require(path: Path) -> None:
    if not path.exists():
        raise StateError(f"There is no store {path}.", "The daemon begins one; --store names another.")


def _read_only(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=BUSY_TIMEOUT_S)
