"""``freetrain db``: check, copy or upgrade the daemon's database."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

import click

from freetrain.cli.helping import group
from freetrain.cli.listing import print_json
from freetrain.cli.options import argument, config_option, dry_run_option, json_option, option, shared_option
from freetrain.config import load_config
from freetrain.daemon.state_directory import is_claimed
from freetrain.errors import ExitCode, FreetrainError
from freetrain.showing.words import printable
from freetrain.store.schema import SCHEMA, back_up, find_problems, name_of_backup, remove_old_backups, schema_of
from freetrain.store.store import DAEMONS_STORE, Store


@dataclass(frozen=True, slots=True)
class WhichStore:
    """The daemon's store, or the one that is named."""

    config_path: Path | None = shared_option(config_option)
    store_path: Path | None = option(
        "--store",
        "Another store than the daemon's [default: $FREETRAIN_STORE, else the daemon's].",
        envvar="FREETRAIN_STORE",
        metavar="PATH",
    )

    @property
    def path(self) -> Path:
        """Path of the store's file."""
        return self.store_path or Path(load_config(self.config_path).config.state.directory) / DAEMONS_STORE


@group("db")
def db_group() -> None:
    """Look after the daemon's database."""


@db_group.command("check")
def check_command(store: WhichStore, as_json: bool = json_option) -> None:
    """Say whether the database is whole; the exit status is 74 if it is not. Nothing is written."""
    path = store.path
    problems = find_problems(path)
    if as_json:
        print_json({"format": "freetrain-db/1", "store": str(path), "problems": problems})
    else:
        for problem in problems:
            click.echo(printable(problem))
        if not problems:
            click.echo(f"{path} is whole, of {path.stat().st_size:,} bytes, with schema {SCHEMA}.")
    raise SystemExit(ExitCode.STATE_IO if problems else ExitCode.OK)


@db_group.command("backup")
def backup_command(
    store: WhichStore,
    keep: int | None = option(
        "--keep", "Remove all copies in the folder but N.", type=click.IntRange(1), metavar="N"
    ),
    dry_run: bool = dry_run_option,
    target: Path | None = argument(required=False),
) -> None:
    """Copy the database, while the daemon works, to TARGET: a file, or a folder in which it is named by the time.

    Without TARGET the folder is backups beside the database.
    """
    path = store.path
    target = target or path.parent / "backups"
    is_folder = target.is_dir() or not target.suffix
    file = name_of_backup(target, time.time()) if is_folder else target
    if dry_run:
        click.echo(f"would copy {path} to {file}" + (f", and keep {keep} copies" if keep else ""))
        return
    back_up(path, file)
    click.echo(f"{file}: {file.stat().st_size:,} bytes")
    for old in remove_old_backups(file.parent, keep) if keep else []:
        click.echo(f"removed {old}")


@db_group.command("upgrade")
def upgrade_command(store: WhichStore, dry_run: bool = dry_run_option) -> None:
    """Bring the database to the schema of this freetrain; a copy of the old one is left beside it.

    The daemon does so itself when it begins; while one is at work here, nothing is changed.
    """
    path = store.path
    found = schema_of(path)
    if found == SCHEMA:
        click.echo(f"{path} has schema {SCHEMA} already.")
        return
    if dry_run:
        click.echo(f"would bring {path} from schema {found} to {SCHEMA}")
        return
    if is_claimed(path.parent):
        raise FreetrainError(
            f"A daemon is at work in {path.parent}, of the freetrain that wrote {path}.",
            "Restart it with this freetrain: it upgrades its database when it begins.",
            ExitCode.TRY_AGAIN,
        )
    Store.open(path)
    click.echo(f"{path} was brought from schema {found} to {SCHEMA}.")
