"""``freetrain status``: whether a daemon is at work here, and what it lends."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import click

from freetrain.cli.helping import command
from freetrain.cli.listing import LISTING, Shape, listing_options
from freetrain.cli.options import config_option
from freetrain.config import load_config
from freetrain.daemon.reports.standing import Standing, find_standing
from freetrain.errors import ExitCode
from freetrain.slurm.parsing import expand_nodes


@command("status", context_settings=LISTING)
@config_option
@listing_options
def status_command(config_path: Path | None, shape: Shape) -> None:
    """Say whether a daemon is at work on this machine, what stops it, and how much it lends; anybody may ask.

    The exit status is 0 if a daemon is at work and Slurm answers it, and 69 if not. Slurm is not asked. With -P,
    --csv or --format there is a line for each state of nodes and of trainers, with its count.
    """
    standing = find_standing(load_config(config_path).config)
    nodes, trainers = _count_nodes(standing), _count_trainers(standing)
    shape.begin(standing)
    if shape.as_json or shape.is_for_scripts or shape.columns:
        counts = {"nodes": nodes, "trainers": trainers}
        rows = [(of, state, str(count)) for of, each in counts.items() for state, count in each.items()]
        document = {"format": "freetrain-daemon/1", "daemon": standing.document(), **counts}
        shape.print(document, ("OF", "STATE", "COUNT"), rows, ("COUNT",))
    elif standing.look is not None:
        click.echo(f"Nodes: {_listed(nodes)}. Trainers: {_listed(trainers)}.")
        unwoken = "" if standing.look.woken_s else "; nothing has woken the daemon between polls"
        click.echo(f"Questions and commands to Slurm in the last hour: {standing.look.calls}{unwoken}.")
    raise SystemExit(ExitCode.OK if standing.answers else ExitCode.UNREACHABLE)


def _count_nodes(standing: Standing) -> Mapping[str, int]:
    counts: Counter[str] = Counter()
    for group in standing.look.nodes if standing.look else ():
        counts[group.state] += len(expand_nodes(group.nodes))
    return counts


def _count_trainers(standing: Standing) -> Mapping[str, int]:
    look = standing.look
    counts = Counter(trainer.state for trainer in look.trainers) if look else Counter()
    return counts + Counter(more=look.trainers_left_out) if look else counts


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {word}" for word, count in counts.items()) or "none"
