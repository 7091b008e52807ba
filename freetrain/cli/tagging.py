"""What ``freetrain submit`` and ``freetrain register`` share: options that say a tag, and where trainers run."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import click

from freetrain.cli.options import options
from freetrain.cli.times import Duration
from freetrain.config import ConfigError, Slurm, load_config
from freetrain.errors import InputError
from freetrain.slurm.tag_values import Kind
from freetrain.slurm.tags import KEYS, Key, Tag, WrongTag, check_values, format_tag

_BY_NODES = ("min", "max", "nodes")


_KEY_OF = {"task_nodes": "nodes"}
"""Option → key of the tag, where they differ: --nodes are those of all tasks together."""

_METAVARS = {
    "name": "NAME",
    "dir": "DIR",
    "curve": "CURVE",
    "kind": "KIND",
    "speed": "NAME:NUMBER/…",
    "notice": "YES|NO",
    "mixed": "YES|NO",
    "step": "A/B/C/D/E",
    "gradients": "MB/SAMPLES",
    "deadline": "TIME",
}


def _option(name: str, key: Key) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    meaning = f"{key.meaning[0].upper()}{key.meaning[1:]}."
    if key.is_duration:
        return click.option(f"--{name}", type=Duration(), help=meaning)
    return click.option(f"--{name}", metavar=_METAVARS.get(name, "NUMBER"), help=meaning)


tag_options: Callable[[Callable[..., Any]], Callable[..., Any]] = options(
    click.option(
        "--nodes",
        metavar="MIN-MAX",
        help="Fewest nodes it can train on and most it can use; a single number is MAX, MIN is then 1. A filler "
        "(--kind tasks) has no MIN, and without --nodes as many as it has tasks.",
    ),
    click.option(
        "--task-nodes",
        metavar="MIN-MAX",
        help="Of a filler: fewest and most nodes of each task. Its size is chosen when it starts, and stays.",
    ),
    *(_option(name, key) for name, key in KEYS.items() if name not in _BY_NODES),
    click.option(
        "--partition",
        metavar="NAME",
        help=f"The preemptible partition [default: the configured slurm.partition, else {Slurm().partition}].",
    ),
    click.option("--dry-run", is_flag=True, help="Print the commands, ready for a shell, and do nothing."),
)


@dataclass(frozen=True, slots=True)
class Wanted:
    """A tag as the options say it.

    Attributes:
        tag: what it means.
        comment: what Slurm is given.
    """

    tag: Tag
    comment: str

    @property
    def most_nodes(self) -> int:
        """The most that it says it can use."""
        return self.tag.max_nodes or 1

    @property
    def fewest_tasks(self) -> int:
        """How many tasks an array must have for that."""
        return 1 if self.tag.is_moldable else self.most_nodes


def read_wanted(nodes: str | None, given: Mapping[str, str | float | None]) -> Wanted:
    """The tag of these options.

    Raises:
        InputError: the tag would be wrong.
    """
    is_filler = given.get("kind") == Kind.TASKS
    if nodes is None and not is_filler:
        raise InputError("How many nodes can it use?", "Say --nodes 2-16; docs/users/tag.md explains it.")
    least, dash, most = (nodes or "").partition("-")
    smallest = {"min": least if dash else "1"} if dash or not is_filler else {}
    values = smallest | ({"max": most if dash else least} if nodes else {})
    values |= {_KEY_OF.get(name, name): _text(value) for name, value in given.items() if value is not None}
    if values.get("dir"):
        values["dir"] = os.path.abspath(values["dir"])  # noqa: PTH100 (Path.resolve would follow links)
    tag = check_values(values)
    if isinstance(tag, WrongTag):
        raise InputError(f"{tag.why}.", "docs/users/tag.md lists what a tag can say.")
    return Wanted(tag, format_tag(values))


def _text(value: str | float) -> str:
    """As a tag says it: durations in seconds."""
    return value if isinstance(value, str) else f"{value:.6f}".rstrip("0").rstrip(".")


def read_slurm_settings(partition: str | None) -> Slurm:
    """How to reach Slurm and where trainers run, as configured, but for the partition if one is named.

    An ordinary user may be unable to read the configuration.
    """
    try:
        slurm = load_config().config.slurm
    except (ConfigError, OSError) as error:
        slurm = Slurm()
        if not partition:
            click.echo(f"freetrain: {error} So the partition is taken to be {slurm.partition}.", err=True)
    return slurm.model_copy(update={"partition": partition}) if partition else slurm
