"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from freetrain.policies import POLICIES, Solver

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


def options(*added: Callable[[Command], Command]) -> Callable[[Command], Command]:
    """One decorator for several options; help lists them in this order."""

    def add(command: Command) -> Command:
        for option in reversed(added):
            command = option(command)
        return command

    return add


policy_options = options(
    click.option(
        "--policy",
        metavar="NAME",
        default=POLICIES[0],
        show_default=True,
        help=f"Who decides: {', '.join(POLICIES)}, or one of a package that you installed (docs/policies.md).",
    ),
    click.option(
        "--solver",
        type=click.Choice([solver.value for solver in Solver]),
        default=Solver.AUTO.value,
        show_default=True,
        help="auto: an exact dynamic programme where all nodes are alike, HiGHS otherwise; highs: HiGHS.",
    ),
    click.option(
        "--time-limit",
        "time_limit_s",
        type=click.FloatRange(min=0, min_open=True),
        default=10.0,
        show_default=True,
        metavar="SECONDS",
        help="Most seconds HiGHS may take for one decision; its best answer until then is used. "
        "Where it does not stop by itself, it is ended half a second later.",
    ),
)
