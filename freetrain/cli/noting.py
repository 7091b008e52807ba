"""What people do with freetrain's commands, written into the daemon's audit by accounts that may write there."""

from __future__ import annotations

import os
import pwd
import time
from collections.abc import Sequence
from pathlib import Path

import click

from freetrain.errors import FreetrainError

_LONGEST_NAME = 64


def note_in_audit(
    directory: Path,
    what: str,
    command: Sequence[str] = (),
    result: str = "done",
    return_code: int | None = None,
) -> None:
    """Write down who did what; nothing that goes wrong with that hinders them.

    Who may not write the database is not written down here: the daemon sees in Slurm what they did.

    Args:
        directory: the daemon's state directory.
        what: the command, as ``freetrain drain c01``.
        command: what Slurm was ordered.
        result: what came of it.
        return_code: what Slurm's command ended with.
    """
    if not os.access(directory, os.W_OK):
        return
    try:
        _record(directory, what, command, result, return_code)
    except FreetrainError as error:
        click.echo(f"freetrain: the audit does not tell of this: {error.what}", err=True)


def who_am_i() -> str:
    """The account that runs this, and the one behind sudo."""
    try:
        name = pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        name = f"uid {os.geteuid()}"
    behind = os.environ.get("SUDO_USER", "")[:_LONGEST_NAME]
    return f"{name} (sudo by {behind})" if behind not in ("", name) else name


def _record(directory: Path, what: str, command: Sequence[str], result: str, return_code: int | None) -> None:
    # Here, since SQLAlchemy takes a while, for which those who may not write need not wait.
    from freetrain.store.store import DAEMONS_STORE, Store

    path = directory / DAEMONS_STORE
    if not path.exists():
        return  # no daemon has ever worked here
    ledger = Store.open_existing(path).ledger()
    ledger.record_command(time.time(), command, what, None, result, who_am_i(), return_code)
