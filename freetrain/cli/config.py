"""``freetrain config``: the configuration: what counts, where it comes from, and whether it fits this Slurm."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from freetrain.cli.config_check import check_command
from freetrain.cli.config_init import init_command
from freetrain.cli.listing import LISTING, Shape, listing_options
from freetrain.cli.options import config_option
from freetrain.cli.output import print_json
from freetrain.config import Config, Loaded, load_config
from freetrain.config.settings import Setting, changed, settings, value_of
from freetrain.showing.words import NOTHING

FORMAT = "freetrain-config/1"


@click.group("config")
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
