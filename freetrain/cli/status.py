"""``freetrain status``: whether a daemon is at work here, and what it lends."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

import click

from freetrain.cli.helping import command
from freetrain.cli.listing import LISTING, Shape, listing_options
from freetrain.cli.options import config_option
from freetrain.client.documents import status_document
from freetrain.config import load_config
from freetrain.daemon.reports.standing import find_standing
from freetrain.errors import ExitCode


@command("status", context_settings=LISTING)
@config_option
@listing_options
def status_command(config_path: Path | None, shape: Shape) -> None:
    """Say whether a daemon is at work on this machine, what stops it, and how much it lends; anybody may ask.

    The exit status is 0 if a daemon is at work and Slurm answers it, and 69 if not. Slurm is not asked. With -P,
    --csv or --format there is a line for each state of nodes and of trainers, with its count.
    """
    standing = find_standing(load_config(config_path).config)
    document = status_document(standing)
    counts = {"nodes": document.nodes, "trainers": document.trainers}
    shape.begin(standing)
    if shape.as_json or shape.is_for_scripts or shape.columns:
        rows = [(of, state, str(count)) for of, states in counts.items() for state, count in states.items()]
        shape.print(asdict(document), ("OF", "STATE", "COUNT"), rows, ("COUNT",))
    elif standing.look is not None:
        click.echo(f"Nodes: {_listed(document.nodes)}. Trainers: {_listed(document.trainers)}.")
        unwoken = "" if standing.look.woken_s else "; nothing has woken the daemon between polls"
        click.echo(f"Questions and commands to Slurm in the last hour: {standing.look.calls}{unwoken}.")
    raise SystemExit(ExitCode.OK if standing.answers else ExitCode.UNREACHABLE)


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {word}" for word, count in counts.items()) or "none"
