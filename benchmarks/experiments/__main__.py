"""Runs a system's experiment on made-up trainings, and prints its table."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict

import click

from benchmarks.experiments.comparing import SEEDS, Experiment, MethodFigures
from freetrain.cli.listing import print_heading, print_json, print_table
from freetrain.cli.progress_bars import counting
from freetrain.showing.words import show_value


@click.command()
@click.argument("system", type=click.Choice(("dltap", "gadget", "smd", "synergy")))
@click.option("--seeds", type=click.IntRange(min=1), default=SEEDS, help="How often, with other random numbers.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def main(system: str, seeds: int, as_json: bool) -> None:
    """Run a system's experiment. Ctrl-C ends it with the table of the seeds that are done.

    Random numbers are seeded: the figures are the same each time.
    """
    experiment: Experiment = importlib.import_module(f"benchmarks.experiments.{system}").EXPERIMENT
    done: list[Sequence[MethodFigures]] = []
    with suppress(KeyboardInterrupt), counting("seeds", seeds, as_json) as tell:
        for seed in range(seeds):
            done.append(tuple(experiment.run(seed)))
            tell("")
    if not done:
        raise click.Abort
    table = experiment.table(done)
    if as_json:
        print_json({"system": system, **asdict(table)})
        return
    print_heading(table.title)
    cells = [[show_value(cell) for cell in row] for row in table.rows]
    print_table(table.columns, cells, table.columns[1:])
    for note in table.notes:
        click.echo(note)


if __name__ == "__main__":
    main()
