"""What people do with freetrain's commands, written into the daemon's audit by accounts that may write there."""

from __future__ import annotations

import os
import pwd
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from freetrain.errors import FreetrainError
from freetrain.slurm.errors import SlurmError

if TYPE_CHECKING:
    from freetrain.store.ledger import Ledger

_LONGEST_NAME = 64


class AuditWriter:
    """Writes down who does what: before it is done, its result unknown, and afterwards what came of it.

    Where the command is cut off in between, the daemon settles the row. Nothing that goes wrong with the audit
    hinders the command: that is printed once, and the audit is left alone then, since each try may wait for a
    locked database. Of accounts that may not write the database nothing is written here: the daemon sees in Slurm
    what they did.
    """

    def __init__(self, directory: Path) -> None:
        self._ledger: Ledger | None = None
        with self._without_hindering():
            self._ledger = _open_ledger(directory)

    @contextmanager
    def noted(self, what: str, command: Sequence[str] = (), result: str = "done") -> Iterator[None]:
        """A block that does something, and its row."""
        number: int | None = None
        with self._without_hindering():
            if self._ledger is not None:
                number = self._ledger.record_command(time.time(), command, what, actor=who_am_i())
        try:
            yield
        except FreetrainError as error:
            self._complete(number, error.what, error.return_code if isinstance(error, SlurmError) else None)
            raise
        self._complete(number, result, 0 if command else None)

    def _complete(self, number: int | None, result: str, return_code: int | None) -> None:
        with self._without_hindering():
            if self._ledger is not None and number is not None:
                self._ledger.complete_command(number, result, return_code)

    @contextmanager
    def _without_hindering(self) -> Iterator[None]:
        try:
            yield
        except FreetrainError as error:
            self._ledger = None
            click.echo(f"freetrain: the audit does not tell of this: {error.what}", err=True)


def who_am_i() -> str:
    """The account that runs this, and the one behind sudo."""
    try:
        name = pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        name = f"uid {os.geteuid()}"
    behind = os.environ.get("SUDO_USER", "")[:_LONGEST_NAME]
    return f"{name} (sudo by {behind})" if behind not in ("", name) else name


def _open_ledger(directory: Path) -> Ledger | None:
    """The daemon's ledger; None: this account may not write it, or no daemon has ever worked here."""
    if not os.access(directory, os.W_OK):
        return None
    # Here, since SQLAlchemy takes a while, for which those who may not write need not wait.
    from freetrain.store.store import DAEMONS_STORE, Store

    path = directory / DAEMONS_STORE
    return Store.open_existing(path).ledger() if path.exists() else None
