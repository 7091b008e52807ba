"""``freetrain policies``: what there is to choose from; ``freetrain bench``: published experiments."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

import click

from freetrain.cli.helping import command
from freetrain.cli.options import config_option
from freetrain.cli.output import print_heading, print_json, print_table
from freetrain.cli.progress_bars import counting
from freetrain.config import Config, load_config
from freetrain.daemon.trainers.needs import needs_of, say_missing_in_queue
from freetrain.errors import FreetrainError
from freetrain.policies.experiment import SEEDS, Experiment, MethodFigures
from freetrain.policies.measured import MEASURED
from freetrain.policies.registry import POLICIES, catalogue
from freetrain.showing.words import NOTHING, show_value
from freetrain.slurm.opening import open_gateway
from freetrain.slurm.submissions import find_submissions

FORMAT = "freetrain-policies/1"
_MEASURED = ("policy", "trace", "work, node-h", "completed", "mean h to complete", "longest wait, h")


@command("policies")
@config_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def policies_command(config_path: Path | None, as_json: bool) -> None:
    """List the policies, placers and finishers that there are, each with what it needs to know, and what it heeds.

    A policy (--policy, decide.policy) says how many nodes each trainer gets, a placer (--place, decide.place)
    which; any policy goes with any placer, and with any objective (--objective, decide.objective) as far as it
    heeds that. A finisher (decide.finish) says what new tasks get of shared nodes beyond what they ask for.
    Where there are settings of a daemon, the trainings in Slurm's queue that lack what a policy needs are counted.
    docs/evidence/policies.md shows what each policy costs, docs/developers/policy.md how to add one.
    """
    loaded = load_config(config_path)
    missing = dict(_missing(loaded.config)) if loaded.sources else {}
    if as_json:
        measured = [dict(zip(_MEASURED, row, strict=True)) for row in MEASURED]
        listed = [asdict(about) for about in catalogue()]
        print_json({"format": FORMAT, "policies": listed, "measured": measured, "missing": missing})
        return
    columns = ["stage", "name", "how it decides", "maximises", "options", "needs", "heeds of the objective"]
    rows = [
        (about.stage, about.name, about.how, about.maximises or NOTHING, " ".join(about.options) or NOTHING,
         about.needs, about.heeds or NOTHING)
        for about in catalogue()
    ]  # fmt: skip
    print_table(columns, rows)
    click.echo("\nWhat each came to on three replayed traces (docs/evidence/policies.md):")
    print_table(_MEASURED, [tuple(map(show_value, row)) for row in MEASURED], _MEASURED[2:])
    for policy, sentences in missing.items():
        for sentence in sentences:
            click.echo(f"{policy}: {sentence}")


def _missing(config: Config) -> Iterator[tuple[str, list[str]]]:
    try:
        jobs = open_gateway(config.slurm.backend, config.slurm.timeout).snapshot().jobs
    except FreetrainError:
        return
    submissions = find_submissions(jobs, config.slurm.queue).values()
    for policy in POLICIES:
        if sentences := list(say_missing_in_queue(needs_of(config, policy), submissions)):
            yield policy, sentences


_BENCH_FORMAT = "freetrain-bench/1"

_SYSTEMS = ("dltap", "gadget", "smd", "synergy")


@command("bench")
@click.argument("system", type=click.Choice(_SYSTEMS))
@click.option("--seeds", type=click.IntRange(min=1), default=SEEDS, help="How often, with other random numbers.")
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


def _seed_by_seed(experiment: Experiment, seeds: int, quiet: bool) -> Sequence[Sequence[MethodFigures]]:
    done: list[Sequence[MethodFigures]] = []
    with suppress(KeyboardInterrupt), counting("seeds", seeds, quiet) as tell:
        for seed in range(seeds):
            done.append(tuple(experiment.run(seed)))
            tell("")
    if not done:
        raise click.Abort
    return done
