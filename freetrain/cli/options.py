"""Options that several commands share."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from math import inf
from pathlib import Path
from typing import Any

import click

from freetrain.cli.times import Duration, parse_beginning, parse_time
from freetrain.errors import InputError

Command = Callable[..., Any]

store_option = click.option(
    "--store",
    "store_path",
    type=click.Path(path_type=Path),
    help="The store's file [default: $FREETRAIN_STORE, else freetrain/freetrain.db in ~/.local/state].",
)

config_option = click.option(
    "--config",
    "config_path",
    type=click.Path(path_type=Path),
    help="The daemon's configuration [default: $FREETRAIN_CONFIG, else /etc/freetrain/freetrain.toml].",
)


def config_file(command: Command) -> Command:
    """Let a command about a configuration take its file as PATH or as ``--config PATH``, in ``config_path``."""

    @functools.wraps(command)
    def with_either(path: Path | None, config_path: Path | None, **given: Any) -> Any:
        if path is not None and config_path is not None and path != config_path:
            raise InputError("PATH and --config name two files.", "Give one of them.")
        return command(config_path=path or config_path, **given)

    argument = click.argument("path", required=False, type=click.Path(path_type=Path))
    return config_option(argument(with_either))


def read_time(_context: click.Context, _option: click.Parameter, text: str | None) -> float | None:
    """UTC epoch seconds of an option; a time without its zone is this machine's."""
    try:
        return None if text is None else parse_time(text, time.time())
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


def _read_beginning(_context: click.Context, _option: click.Parameter, text: str) -> float:
    try:
        return parse_beginning(text, time.time())
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


def end_of(until_s: float | None, for_s: float | None, now_s: float) -> float | None:
    """When something ends, by the options of :func:`end_options`, UTC epoch seconds; None: it does not.

    Raises:
        InputError: both are given, or the time has passed.
    """
    if until_s is not None and for_s is not None:
        raise InputError("--until and --for say the same in two ways.", "Give one of them.")
    end_s = now_s + for_s if for_s is not None else until_s
    if end_s is not None and end_s <= now_s:
        raise InputError("The time that is given has passed.")
    return None if end_s == inf else end_s


since_option = click.option(
    "--since",
    "since_s",
    default="1d",
    show_default=True,
    callback=_read_beginning,
    metavar="TIME",
    help="From then on: how long ago, as 2h or 7d, or a time, as now-2days or 2026-01-31T08:00.",
)


def options(*added: Callable[[Command], Command]) -> Callable[[Command], Command]:
    """One decorator for several options; help lists them in this order."""

    def add(command: Command) -> Command:
        for option in reversed(added):
            command = option(command)
        return command

    return add


end_options = options(
    click.option(
        "--until",
        "until_s",
        callback=read_time,
        metavar="TIME",
        help="When it ends, as 2026-01-31T08:00 or now+2hours.",
    ),
    click.option("--for", "for_s", type=Duration(endless=True), help="How long it lasts, as 8h."),
)
