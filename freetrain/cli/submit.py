"""``freetrain submit``: hands a training to freetrain, as a held array of one-node tasks."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Unpack

import click

from freetrain.cli.helping import command
from freetrain.cli.options import config_option
from freetrain.cli.tagging import dry_run_option, nodes_option, tag_options, warn
from freetrain.client.submitting import CheckedTag, TagValues, hand_in, prepare, read_slurm


@command(
    "submit",
    context_settings={"allow_interspersed_args": False},
    first=("--nodes", "--array", "--name", "--dir", "--sbatch"),
)
@nodes_option
@click.option(
    "--array",
    metavar="TASKS",
    help="Hand in a filler: the tasks of an ordinary array, as 0-199, each of which runs once.",
)
@click.option(
    "--sbatch",
    multiple=True,
    metavar="OPTION",
    help="One more option of sbatch, in one word: --sbatch=--gpus-per-node=4. May be repeated.",
)
@dry_run_option
@tag_options
@click.option(
    "--part",
    is_flag=True,
    help="Where the site lends parts of nodes: each task takes the part that it asks for (--gpus-per-node, "
    "--cpus-per-task, --mem), and not a whole node.",
)
@config_option
@click.argument("script", type=click.Path(path_type=Path))
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def submit_command(
    config_path: Path | None,
    nodes: str | None,
    array: str | None,
    partition: str | None,
    dry_run: bool,
    sbatch: tuple[str, ...],
    part: bool,
    script: Path,
    arguments: tuple[str, ...],
    **tag: Unpack[TagValues],
) -> None:
    """Submit SCRIPT as a training that freetrain grows and shrinks with the nodes that are idle.

    Everything after SCRIPT goes to it. The script runs once on each node lent, and calls 'freetrain run' there;
    docs/users/submit.md shows one. With --array the script is an ordinary one, which needs no change
    (docs/users/fillers.md). Prints the job's id.
    """
    slurm = read_slurm(config_path, partition, warn)
    prepared = prepare(slurm, script, arguments, tag, nodes=nodes, array=array, part=part, sbatch=sbatch)
    if dry_run:
        click.echo(shlex.join(prepared.command))
        return
    job = hand_in(prepared)
    click.echo(job)
    click.echo(_what_next(job, prepared.tag), err=True)


def _what_next(job: str, checked: CheckedTag) -> str:
    size = f"{checked.tag.min_nodes} to {checked.most_nodes} nodes"
    if checked.tag.is_filler:
        least, most = checked.tag.task_nodes or (1, 1)
        each = "one" if most == 1 else f"{least}" if least == most else f"{least} to {most}"
        size = f"idle nodes, {each} for each of its tasks"
    return f"Job {job} waits for {size}; see it with 'freetrain jobs', end it with 'freetrain cancel {job}'."
