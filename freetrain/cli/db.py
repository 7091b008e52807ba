"""``freetrain db``: check, copy or upgrade the daemon's database."""

from __future__ import annotations

import time
from pathlib import Path

import click

from freetrain.cli.helping import Group
from freetrain.cli.listing import print_json
from freetrain.cli.options import config_option
from freetrain.config import load_config
from freetrain.daemon.state_directory import is_claimed
from freetrain.errors import ExitCode, FreetrainError
from freetrain.showing.words import printable
from freetrain.store.schema import SCHEMA, back_up, find_problems, name_of_backup, remove_old_backups, schema_of
from freetrain.store.store import DAEMONS_STORE, Store

_store = click.option(
    "--store",
    "store_path",
    type=click.Path(path_type=Path),
    envvar="FREETRAIN_STORE",
    help="Another store than the daemon's [default: $FREETRAIN_STORE, else the daemon's].",
)
_dry_run = click.option("--dry-run", is_flag=True, help="Say what would be done.")


@click.group("db", cls=Group)
def db_group() -> None:
    """Look after the daemon's database."""


@db_group.command("check")
@config_option
@_store
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def check_command(config_path: Path | None, store_path: Path | None, as_json: bool) -> None:
    """Say whether the database is whole; the exit status is 74 if it is not. Nothing is written."""
    path = _path(config_path, store_path)
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
@config_option
@_store
@click.option("--keep", type=click.IntRange(1), metavar="N", help="Remove all copies in the folder but N.")
@_dry_run
@click.argument("target", required=False, type=click.Path(path_type=Path))
def backup_command(
    config_path: Path | None, store_path: Path | None, keep: int | None, dry_run: bool, target: Path | None
) -> None:
    """Copy the database, while the daemon works, to TARGET: a file, or a folder in which it is named by the time.

    Without TARGET the folder is backups beside the database.
    """
    path = _path(config_path, store_path)
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
@config_option
@_store
@_dry_run
def upgrade_command(config_path: Path | None, store_path: Path | None, dry_run: bool) -> None:
    """Bring the database to the schema of this freetrain; a copy of the old one is left beside it.

    The daemon does so itself when it begins; while one is at work here, nothing is changed.
    """
    path = _path(config_path, store_path)
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


def _path(config_path: Path | None, store_path: Path | None) -> Path:
    return store_path or Path(load_config(config_path).config.state.directory) / DAEMONS_STORE
