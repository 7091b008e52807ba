"""``freetrain bench``: the experiment of each of the other systems."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict

import click

from freetrain.cli.helping import command
from freetrain.cli.output import print_heading, print_json, print_table
from freetrain.cli.progress_bars import experimenting
from freetrain.policies.experiment import SEEDS, Experiment, MethodComparison
from freetrain.showing.words import show_value

_BENCH_FORMAT = "freetrain-bench/1"

_SYSTEMS = ("dltap", "gadget", "smd", "synergy")


@command("bench")
@click.argument("system", type=click.Choice(_SYSTEMS))
@click.option(
    "--seeds",
    type=click.IntRange(min=1),
    default=SEEDS,
    help="How often, with other random numbers.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def bench_command(system: str, seeds: int, as_json: bool) -> None:
    """Run a system's experiment on made-up trainings, and print its table.

    Random numbers are seeded: the figures are the same each time. Ctrl-C ends it with the table of the seeds that
    are done. docs/evidence/systems.md tells how to read it.
    """
    experiment: Experiment = importlib.import_module(f"freetrain.policies.{system}.experiment").EXPERIMENT
    table = experiment.table(_seed_by_seed(experiment, seeds, as_json))
    if as_json:
        print_json({"format": _BENCH_FORMAT, "system": system, **asdict(table)})
        return
    print_heading(table.title)
    cells = [[show_value(cell) for cell in row] for row in table.rows]
    print_table(table.columns, cells, table.columns[1:])
    for note in table.notes:
        click.echo(note)


def _seed_by_seed(experiment: Experiment, seeds: int, quiet: bool) -> Sequence[Sequence[MethodComparison]]:
    """Comparisons by seed, of those that were done before Ctrl-C."""
    done: list[Sequence[MethodComparison]] = []
    with suppress(KeyboardInterrupt), experimenting(seeds, quiet) as over:
        for seed in range(seeds):
            done.append(tuple(experiment.compare(seed)))
            over(len(done))
    if not done:
        raise click.Abort
    return done
