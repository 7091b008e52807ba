"""The schema's version and the way to the newest; checks and copies of a store."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from itertools import chain, count
from pathlib import Path

from sqlalchemy import Connection, Engine

from freetrain.errors import ExitCode, StateError
from freetrain.store.engine import (
    BUSY_TIMEOUT_S,
    as_state_errors,
    begin_anew,
    for_writing,
    make_engine,
    make_folder,
    make_migration_engine,
    nothing_recorded,
)
from freetrain.store.tables import Base

SCHEMA = "0016"
"""The newest migration's number."""
OLDEST_SCHEMA = "0008"
"""Schema of release 0.2.0, the first one: a store with an older schema cannot be upgraded."""
MIGRATIONS = Path(__file__).with_name("migrations")
NO_SCHEMA = "none"
"""Value instead of a schema's number: nothing is in the file yet."""
_MOST_PROBLEMS = 10
_SUFFIX = ".db"


def read_schema(connection: Connection) -> str | None:
    """The schema's version; None: there is nothing in the file yet.

    Raises:
        StateError: it is some other program's database.
    """
    tables = set(connection.exec_driver_sql("SELECT name FROM sqlite_master WHERE type = 'table'").scalars())
    if not tables:
        return None
    if "alembic_version" not in tables:
        raise StateError(
            f"{connection.engine.url.database} is an SQLite database, but not freetrain's: it has the tables "
            f"{', '.join(sorted(tables)[:3])}.",
            f"Check the path. {begin_anew(Path(str(connection.engine.url.database)))}",
        )
    return connection.exec_driver_sql("SELECT version_num FROM alembic_version").scalar()


def require_up_to_date(engine: Engine, path: Path) -> None:
    """Refuse a store with another schema than this freetrain needs; nothing is written."""
    with as_state_errors(path), engine.connect() as connection:
        found = read_schema(connection)
    if found is None:
        raise nothing_recorded(path)
    if found == SCHEMA:
        return
    _check_known(found, path)
    raise StateError(
        f"The store {path} has schema {found}, and this freetrain needs {SCHEMA}: an older freetrain wrote it, "
        "and its daemon may still be at work.",
        "If it is a daemon's, restart that daemon with this freetrain, which upgrades it; else run "
        f"'freetrain db upgrade --store {path}'.",
        ExitCode.CONFIGURATION,
    )


def bring_up_to_date(engine: Engine, path: Path) -> None:
    """Create the tables, or migrate them to what this freetrain needs with a copy of the old file beside it."""
    with as_state_errors(path):
        if not path.exists() or not path.stat().st_size:
            _begin_file(path)
        # Also shows, before any work is done, whether the store can be written at all.
        with for_writing(engine).begin() as connection:
            found = read_schema(connection)
        if found == SCHEMA:
            return
        if found is not None:
            _check_known(found, path)
            _back_up(path, found)
        with closing(_connect(path)) as alone:
            # Stays with the file: readers and the writer do not wait for each other. Not allowed in a transaction.
            alone.execute("PRAGMA journal_mode = WAL")
        with for_writing(make_migration_engine(path)).begin() as connection:
            # Again, under the lock: another process may have been here since.
            if read_schema(connection) is None:
                _create_tables(connection)
            else:
                _migrate(connection)


def _create_tables(connection: Connection) -> None:
    """Create the tables as all migrations would, in a tenth of the time."""
    Base.metadata.create_all(connection, checkfirst=False)
    # As alembic makes it, which is to find it.
    connection.exec_driver_sql(
        "CREATE TABLE alembic_version "
        "(version_num VARCHAR(32) NOT NULL, CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num))"
    )
    connection.exec_driver_sql("INSERT INTO alembic_version VALUES (?)", (SCHEMA,))


def _migrate(connection: Connection) -> None:
    # Imported here, because it takes 0.1 s and is seldom needed.
    from alembic import command
    from alembic.config import Config

    config = Config()
    # A % in the path would be taken for an interpolation.
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    config.attributes["connection"] = connection
    command.upgrade(config, "head")


def _begin_file(path: Path) -> None:
    """Set the options that can be set for an empty file only."""
    with closing(_connect(path)) as alone:
        alone.execute("PRAGMA page_size = 16384")
        # What is forgotten is given back to the file system, see Ledger.give_space_back.
        alone.execute("PRAGMA auto_vacuum = INCREMENTAL")
        alone.execute("PRAGMA journal_mode = WAL")


def _check_known(found: str, path: Path) -> None:
    if found > SCHEMA:
        raise StateError(
            f"The store {path} has schema {found}, this freetrain knows those up to {SCHEMA}: a newer freetrain "
            "wrote it.",
            f"Use that freetrain, or name another store with --store. {begin_anew(path)}",
            # systemd starts the daemon again after the other errors of a store, which may pass.
            ExitCode.CONFIGURATION,
        )
    if found < OLDEST_SCHEMA:
        raise StateError(
            f"The store {path} has schema {found}, which freetrain had before its first release, 0.2.0: this "
            f"freetrain upgrades stores from schema {OLDEST_SCHEMA} on.",
            f"Let freetrain 0.2.0 upgrade it first, or name another store with --store. {begin_anew(path)}",
            ExitCode.CONFIGURATION,
        )


def _back_up(path: Path, schema: str) -> None:
    name = f"{path.name}.schema-{schema}.backup"
    names = chain((name,), (f"{name}-{copy}" for copy in count(2)))
    copy_store(path, next(backup for backup in map(path.with_name, names) if not backup.exists()))


def copy_store(path: Path, target: Path) -> None:
    """Write a whole copy of a store, or none, while others use it.

    Raises:
        sqlite3.Error: one of the two cannot be read or written.
    """
    try:
        with closing(_connect(path)) as connection:
            # A copy of the files would miss what is in the write-ahead log, or tear a transaction apart.
            connection.execute("VACUUM INTO ?", (str(target),))
    except sqlite3.Error:
        target.unlink(missing_ok=True)
        raise


def _connect(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(path, timeout=BUSY_TIMEOUT_S)


def find_problems(path: Path) -> list[str]:
    """Problems of the store, in sentences; none: it is whole. Nothing is written."""
    _require(path)
    uri = f"{path.absolute().as_uri()}?mode=ro"
    with as_state_errors(path), closing(sqlite3.connect(uri, uri=True, timeout=BUSY_TIMEOUT_S)) as connection:
        lines = [row[0] for row in connection.execute(f"PRAGMA integrity_check({_MOST_PROBLEMS})")]
        broken = connection.execute("PRAGMA foreign_key_check").fetchmany(_MOST_PROBLEMS)
    problems = [f"SQLite says: {line}" for line in lines if line != "ok"]
    problems += [f"a row of {table} refers to one of {parent} that is not there" for table, _, parent, _ in broken]
    schema = schema_of(path)
    if schema != SCHEMA:
        problems.append(f"it has schema {schema}, and this freetrain needs {SCHEMA}: {_remedy(schema)}")
    return problems


def _remedy(schema: str) -> str:
    if schema != NO_SCHEMA and schema > SCHEMA:
        return "use the newer freetrain that wrote it"
    return "let freetrain 0.2.0 upgrade it first" if schema < OLDEST_SCHEMA else "run 'freetrain db upgrade'"


def schema_of(path: Path) -> str:
    """Number of a store's schema, or ``NO_SCHEMA``; older ones have smaller numbers."""
    _require(path)
    with as_state_errors(path), make_engine(path).connect() as connection:
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
    with as_state_errors(path):
        copy_store(path, target)
    target.chmod(path.stat().st_mode & 0o777)


def name_of_backup(folder: Path, now_s: float) -> Path:
    """Path of a copy that is made now; such names sort by time."""
    return folder / f"freetrain-{datetime.fromtimestamp(now_s, UTC):%Y%m%dT%H%M%SZ}{_SUFFIX}"


def remove_old_backups(folder: Path, keep: int) -> list[Path]:
    """Remove the oldest copies beyond ``keep``; the removed paths."""
    copies = sorted(folder.glob(f"freetrain-*T*Z{_SUFFIX}"))
    old = copies[: max(0, len(copies) - keep)]
    for path in old:
        path.unlink(missing_ok=True)
    return old


def _require(path: Path) -> None:
    if not path.exists():
        raise StateError(f"There is no store {path}.", "The daemon begins one; --store names another.")
