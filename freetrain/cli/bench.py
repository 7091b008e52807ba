"""``freetrain bench``: the experiment of each of the other systems."""

from __future__ import annotations

import importlib
from dataclasses import asdict

import click

from freetrain.cli.output import print_heading, print_json, print_table, show_value
from freetrain.policies.experiment import ResultTable

FORMAT = "freetrain-bench/1"

_SYSTEMS = ("dltap", "gadget", "smd", "synergy")


@click.command("bench")
@click.argument("system", type=click.Choice(_SYSTEMS))
@click.option(
    "--seeds", type=click.IntRange(min=1), help="How often, with other random numbers [default: its own]."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def bench_command(system: str, seeds: int | None, as_json: bool) -> None:
    """Run a system's experiment on made-up trainings, and print its table.

    Random numbers are seeded: the figures are the same each time. docs/evidence/systems.md tells how to read them.
    """
    experiment = importlib.import_module(f"freetrain.policies.{system}.experiment")
    table: ResultTable = experiment.run() if seeds is None else experiment.run(seeds)
    if as_json:
        print_json({"format": FORMAT, "system": system, **asdict(table)})
        return
    print_heading(table.title)
    cells = [[show_value(cell) for cell in row] for row in table.rows]
    print_table(table.columns, cells, table.columns[1:])
    for note in table.notes:
        click.echo(note)
