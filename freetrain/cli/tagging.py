"""What ``freetrain submit`` and ``freetrain register`` share: options that say a tag, and where trainings run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from freetrain.cli.options import options
from freetrain.cli.times import Duration
from freetrain.config import Slurm
from freetrain.slurm.tags import KEYS, TagKey

_BY_NODES = ("min", "max", "nodes")


def _option(name: str, key: TagKey) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    meaning = f"{key.meaning[0].upper()}{key.meaning[1:]}."
    if key.is_duration:
        return click.option(f"--{name}", type=Duration(), help=meaning)
    return click.option(f"--{name}", metavar=key.metavar, help=meaning)


nodes_option = click.option(
    "--nodes",
    metavar="MIN-MAX",
    help="Nodes that it needs at least and can use at most; a single number is MAX, MIN is then 1. A filler "
    "(--kind tasks) has no MIN, and without --nodes as many as it has tasks.",
)
tag_options: Callable[[Callable[..., Any]], Callable[..., Any]] = options(
    *(_option(name, key) for name, key in KEYS.items() if name not in _BY_NODES),
    click.option(
        "--task-nodes",
        metavar="MIN-MAX",
        help="Of a filler: least and most nodes of each task. Its size is chosen when it starts, and stays.",
    ),
    click.option(
        "--partition",
        metavar="NAME",
        help=f"The preemptible partition [default: the configured slurm.partition, else {Slurm().partition}].",
    ),
)
dry_run_option = click.option(
    "--dry-run", is_flag=True, help="Print the commands, ready for a shell, and do nothing."
)


def warn(sentence: str) -> None:
    """Say what is odd, beside what scripts read."""
    click.echo(f"freetrain: {sentence}", err=True)
