"""The site that a command is about: its settings, its Slurm, its daemon, and the audit of people's orders."""

from __future__ import annotations

import os
import pwd
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import click

from freetrain.cli.options import config_option_as
from freetrain.config import Config, load_config
from freetrain.core.cluster import Snapshot
from freetrain.daemon.controls.nudge import send_nudge
from freetrain.daemon.reports.standing import Standing, find_standing
from freetrain.errors import FreetrainError, InputError
from freetrain.slurm.errors import SlurmError
from freetrain.slurm.opening import OpenedWhenAsked
from freetrain.slurm.submissions import Submission, find_submissions

if TYPE_CHECKING:
    from freetrain.store.ledger import Ledger

_LONGEST_NAME = 64


class AuditWriter:
    """Writer of people's orders into the audit: before each with its result unknown, afterwards with the result.

    Where the command is cut off in between, the daemon settles the row. Nothing that goes wrong with the audit
    hinders the command: that is printed once, and the audit is left alone then, since each try may wait for a
    locked database. Of accounts that may not write the database nothing is written here: the daemon sees in Slurm
    what they did.
    """

    def __init__(self, directory: Path) -> None:
        # None: this account may not write it, or no daemon has ever worked here
        self._ledger: Ledger | None = None
        if not os.access(directory, os.W_OK):
            return
        # Here, since SQLAlchemy takes a while, for which those who may not write need not wait.
        from freetrain.store.store import DAEMONS_STORE, Store

        path = directory / DAEMONS_STORE
        with self._without_hindering():
            self._ledger = Store.open_existing(path).ledger() if path.exists() else None

    @contextmanager
    def noted(self, what: str, command: Sequence[str] = (), result: str = "done") -> Iterator[None]:
        """Record in the audit what the block does, and its result."""
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


class SiteContext:
    """Site of a configuration (None: the default one): settings, Slurm and daemon, each looked up at first use.

    A command has one as its parameter ``site``, by ``--config``.
    """

    option: ClassVar = config_option_as("site", callback=lambda context, option, path: SiteContext(path))

    def __init__(self, config_path: Path | None) -> None:
        self._config_path = config_path

    @cached_property
    def config(self) -> Config:
        """The settings."""
        return load_config(self._config_path).config

    @cached_property
    def directory(self) -> Path:
        """Directory in which the daemon keeps its state."""
        return Path(self.config.state.directory)

    @cached_property
    def slurm(self) -> OpenedWhenAsked:
        """Connection to Slurm, opened when it is first used."""
        return OpenedWhenAsked(self.config.slurm.backend, self.config.slurm.timeout)

    @cached_property
    def standing(self) -> Standing:
        """State of the daemon: whether it is at work, and the result of its last look."""
        return find_standing(self.config)

    @cached_property
    def audit(self) -> AuditWriter:
        """Writer of people's orders into the audit."""
        return AuditWriter(self.directory)

    def ledger(self) -> Ledger:
        """The daemon's ledger; raises StateError if this account may not read it."""
        # Here, since SQLAlchemy takes a while.
        from freetrain.client.daemons_ledger import daemons_store

        return daemons_store(self.config).ledger()

    def training(self, id_: str, snapshot: Snapshot) -> Submission:
        """A training that Slurm shows.

        Raises:
            InputError: it shows none of this id.
        """
        found = find_submissions(snapshot.jobs, self.config.slurm.queue).get(id_)
        if found is None:
            raise InputError(f"There is no training {id_}.", "freetrain jobs lists them.")
        return found

    def nudge(self) -> None:
        """Let the daemon look at once, where there is one: it may be on another machine, and looks by itself."""
        with suppress(FreetrainError):
            send_nudge(self.directory)

    def document(self, format_: str, **facts: Any) -> dict[str, Any]:
        """A document for programs: its format, the daemon's state, and facts."""
        return {"format": format_, "daemon": self.standing.document(), **facts}
