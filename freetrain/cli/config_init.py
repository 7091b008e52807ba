"""``freetrain config init``: a first configuration for the Slurm that is there."""

from __future__ import annotations

import os
from pathlib import Path

import click

from freetrain.cli.config_check import lines_of
from freetrain.cli.options import config_file
from freetrain.config import CONFIG_VARIABLE, DEFAULT_PATH, Config, ConfigError, load_config
from freetrain.config.documents import example_file
from freetrain.daemon.admission.first_configuration import propose
from freetrain.daemon.admission.inspection import daemons_account, inspect
from freetrain.showing.words import printable
from freetrain.slurm.opening import OpenedWhenAsked
from freetrain.slurm.site.reader import ALL_QUESTIONS


@click.command("init")
@config_file
@click.option("--force", is_flag=True, help="Replace a file that is there.")
@click.option("--dry-run", is_flag=True, help="Print what would be written.")
def init_command(config_path: Path | None, force: bool, dry_run: bool) -> None:
    """Ask the live Slurm, and write a complete first configuration that only observes.

    It goes to PATH, or that of --config; else to $FREETRAIN_CONFIG or /etc/freetrain/freetrain.toml. What is to be
    done in Slurm is printed, as 'freetrain config check' does.
    """
    path = config_path or Path(os.environ.get(CONFIG_VARIABLE) or DEFAULT_PATH)
    defaults = Config()
    gateway = OpenedWhenAsked(defaults.slurm.backend, defaults.slurm.timeout)
    text = example_file(propose(gateway.site(0.0, ALL_QUESTIONS)))
    if dry_run:
        click.echo(text, nl=False)
        return
    _write(path, text, force)
    config = load_config(path).config
    click.echo(f"{path} is written: {config.slurm.queue}, mode {config.lend.mode}.")
    findings = inspect(config, (path,), gateway, daemons_account(config)).findings
    if findings:
        click.echo("Before it can lend anything, Slurm has to be as it must be ('freetrain config check'):")
    for finding in findings:
        for line in lines_of(finding, path):
            click.echo(printable(line))


def _write(path: Path, text: str, force: bool) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("w" if force else "x") as file:
            file.write(text)
            os.fchmod(file.fileno(), 0o644)
    except FileExistsError as error:
        raise ConfigError(f"{path} is there already.", "Give --force to replace it, or another PATH.") from error
    except OSError as error:
        raise ConfigError(
            f"{path} cannot be written: {error.strerror}.", "Name a PATH that you may write."
        ) from error
