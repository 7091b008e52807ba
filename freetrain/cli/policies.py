"""``freetrain policies``: what there is to choose from."""

from __future__ import annotations

from dataclasses import asdict

import click

from freetrain.cli.output import print_json, print_table
from freetrain.policies.registry import catalogue
from freetrain.showing.words import NOTHING

FORMAT = "freetrain-policies/1"


@click.command("policies")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def policies_command(as_json: bool) -> None:
    """List the policies, placers and finishers that there are, each with what it needs to know, and what it heeds.

    A policy (--policy, decide.policy) says how many nodes each trainer gets, a placer (--place, decide.place)
    which; any policy goes with any placer, and with any objective (--objective, decide.objective) as far as it
    heeds that. A finisher (decide.finish) says what new tasks get of shared nodes beyond what they ask for.
    docs/policies.md tells more, and how to add one.
    """
    if as_json:
        print_json({"format": FORMAT, "policies": [asdict(about) for about in catalogue()]})
        return
    rows = [(one.stage, one.name, one.how, one.needs, one.heeds or NOTHING) for one in catalogue()]
    print_table(["stage", "name", "how it decides", "needs", "heeds of the objective"], rows)
