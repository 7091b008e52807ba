"""``freetrain explain``: why a training has the nodes that it has, and why a node is lent or not."""

from __future__ import annotations

from pathlib import Path

import click

from freetrain.cli.helping import command
from freetrain.cli.options import config_option
from freetrain.cli.output import print_json
from freetrain.client import Client
from freetrain.showing.words import printable


@command("explain")
@config_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.argument("what", metavar="JOB|NODE")
def explain_command(config_path: Path | None, as_json: bool, what: str) -> None:
    """Say in sentences why a training has as many nodes as it has, or why a node is lent or not.

    JOB is a training's id, as 'freetrain jobs' shows it, or any job of the site's. What was decided, and what
    another decision would have been worth, is for accounts that may read the daemon's database; the rest is for
    all.
    """
    client = Client(config_path)
    standing = client.standing()
    sentences = client.explain(what, standing)
    if as_json:
        daemon = standing.document()
        print_json({"format": "freetrain-explain/1", "daemon": daemon, "about": what, "sentences": sentences})
        return
    for line in (*standing.lines(), "", *sentences):
        click.echo(printable(line))
