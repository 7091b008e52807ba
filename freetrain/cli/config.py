"""``freetrain config``: the configuration: what counts, where it comes from, and whether it fits this Slurm."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from freetrain.cli.config_check import check_command, lines_of
from freetrain.cli.helping import Group, command
from freetrain.cli.listing import LISTING, Shape, listing_options
from freetrain.cli.options import config_file, config_option
from freetrain.cli.output import print_json
from freetrain.config import CONFIG_VARIABLE, DEFAULT_PATH, Config, ConfigError, Loaded, load_config
from freetrain.config.documents import example_file
from freetrain.config.settings import Setting, changed, settings, value_of
from freetrain.daemon.admission.inspection import daemons_account, inspect, propose
from freetrain.showing.words import NOTHING, printable
from freetrain.slurm.opening import OpenedWhenAsked
from freetrain.slurm.site.reader import ALL_QUESTIONS


@command("init")
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


FORMAT = "freetrain-config/1"


@click.group("config", cls=Group)
def config_group() -> None:
    """Check, show, compare or begin the daemon's configuration."""


config_group.add_command(check_command)
config_group.add_command(init_command)


@config_group.command("show")
@config_option
@click.option("--origin", "with_origin", is_flag=True, help="Say behind each setting which file it comes from.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def show_command(config_path: Path | None, with_origin: bool, as_json: bool) -> None:
    """Print every setting as it counts, in the form of the file."""
    loaded = load_config(config_path)
    if as_json:
        print_json(_document(loaded, settings()))
        return
    section = ""
    for setting in settings():
        if setting.section != section:
            click.echo(f"{chr(10) if section else ''}[{setting.section}]")
            section = setting.section
        line = f"{setting.name} = {setting.show(value_of(loaded.config, setting))}"
        click.echo(f"{line:<40} # {_origin(loaded, setting) or 'default'}" if with_origin else line)


@config_group.command("diff", context_settings=LISTING)
@config_option
@listing_options
@click.argument("other", required=False, type=click.Path(path_type=Path))
def diff_command(config_path: Path | None, other: Path | None, shape: Shape) -> None:
    """List the settings that differ from the defaults, or from those of the configuration OTHER."""
    loaded = load_config(config_path)
    base = Config() if other is None else load_config(other).config
    found = changed(loaded.config, base)
    rows = [
        (
            setting.path,
            setting.show(value_of(base, setting)),
            setting.show(value_of(loaded.config, setting)),
            _origin(loaded, setting) or NOTHING,
        )
        for setting in found
    ]
    columns = ("SETTING", "OTHER" if other else "DEFAULT", "VALUE", "FROM")
    otherwise = "No setting differs."
    shape.print(_document(loaded, found), columns, rows, otherwise=otherwise)


def _origin(loaded: Loaded, setting: Setting) -> str:
    return str(loaded.origins.get(setting.path, ""))


def _document(loaded: Loaded, shown: Any) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "sources": [str(source) for source in loaded.sources],
        "settings": [
            {
                "setting": setting.path,
                "value": value_of(loaded.config, setting),
                "default": setting.default,
                "from": _origin(loaded, setting) or None,
            }
            for setting in shown
        ],
    }
