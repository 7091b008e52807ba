"""``freetrain submit``: hands a training to freetrain, as a held array of one-node tasks."""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path

import click

from freetrain.cli.tagging import Wanted, read_slurm_settings, read_wanted, tag_options
from freetrain.errors import InputError
from freetrain.slurm import commands, handing_in
from freetrain.slurm.errors import SlurmRefusedError, SlurmUnreachableError
from freetrain.slurm.gateway import Gateway
from freetrain.slurm.opening import OpenedWhenAsked
from freetrain.slurm.tag_values import Kind

_PATIENCE_S = 90.0
"""Longer than sbatch itself tries, a minute without a configuration: what it says in the end is clearer."""
_TOO_LARGE = "No trainer can have more nodes than MaxArraySize of 'scontrol show config' allows."


@click.command("submit", context_settings={"allow_interspersed_args": False})
@tag_options
@click.option(
    "--array",
    metavar="TASKS",
    help="Hand in a filler: the tasks of an ordinary array, as 0-199, each of which runs once.",
)
@click.option(
    "--sbatch",
    "more",
    multiple=True,
    metavar="OPTION",
    help="One more option of sbatch, in one word: --sbatch=--gpus-per-node=4. May be repeated.",
)
@click.option(
    "--part",
    is_flag=True,
    help="Where the site lends parts of nodes: each task takes the part that it asks for (--gpus-per-node, "
    "--cpus-per-task, --mem), and not a whole node.",
)
@click.argument("script", type=click.Path(path_type=Path))
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def submit_command(
    nodes: str | None,
    array: str | None,
    partition: str | None,
    dry_run: bool,
    more: tuple[str, ...],
    part: bool,
    script: Path,
    arguments: tuple[str, ...],
    **given: str | float | None,
) -> None:
    """Submit SCRIPT as a training that freetrain grows and shrinks with the nodes that are idle.

    Everything after SCRIPT goes to it. The script runs once on each node lent, and calls 'freetrain run' there;
    docs/users/submit.md shows one. With --array the script is an ordinary one, which needs no change
    (docs/users/fillers.md). Prints the job's id.
    """
    if array is not None:
        _check_array(array)
    wanted = read_wanted(nodes, given | {"kind": given["kind"] or (Kind.TASKS if array else None)})
    if wanted.tag.is_filler != bool(array):
        raise InputError("A filler has --array and --kind tasks.", "docs/users/fillers.md shows one.")
    if part and wanted.tag.is_moldable:
        raise InputError("Tasks of several nodes have whole ones.", "Leave out --part or --task-nodes.")
    _check_options(more)
    what = (str(_check_script(script)), *arguments)
    slurm = read_slurm_settings(partition)
    tasks = array or f"0-{wanted.most_nodes - 1}"
    command = handing_in.submit(what, wanted.comment, tasks, slurm.queue, wanted.tag.name, more, not part)
    if dry_run:
        click.echo(shlex.join(command))
        return
    # Nothing is added to the environment: sbatch hands it on to the job, and reads times in its time zone.
    job = _submit(command, OpenedWhenAsked(slurm.backend, _PATIENCE_S, environment={}))
    click.echo(job)
    click.echo(_what_next(job, wanted), err=True)


def _check_script(script: Path) -> Path:
    """Its absolute path, which no sbatch takes for an option or looks for elsewhere."""
    absolute = Path(os.path.abspath(script))  # noqa: PTH100 (Path.resolve would follow links)
    try:
        with absolute.open("rb") as file:
            beginning = file.read(2)
    except OSError as error:
        raise InputError(f"cannot read the script {script}: {error.strerror}.") from error
    if beginning != b"#!":
        raise InputError(
            f"{script} does not begin with #!, so it is no batch script.", "Let its first line be #!/bin/bash."
        )
    return absolute


def _check_array(array: str) -> None:
    """What sbatch takes: numbers and ranges of them, and how many may run at once."""
    tasks = re.fullmatch(r"(\d+(?:-\d+(?::\d+)?)?(?:,\d+(?:-\d+(?::\d+)?)?)*)(?:%\d+)?", array)
    ranges = re.findall(r"(\d+)-(\d+)", tasks[1]) if tasks else []
    if tasks is None or any(int(first) > int(last) for first, last in ranges):
        raise InputError(
            f"--array {array!r} names no tasks.", "Write 0-199, 0-9,20, 0-99:2 or 0-199%8, as for sbatch."
        )


def _check_options(more: tuple[str, ...]) -> None:
    for option in more:
        if not option.startswith("-") or option in ("-", "--"):
            raise InputError(
                f"--sbatch {option!r} is no option of sbatch.", "Write it in one word: --sbatch=--time=8:00:00."
            )


def _submit(command: commands.Command, gateway: Gateway) -> str:
    try:
        printed = gateway.perform(command)
    except SlurmRefusedError as error:
        is_size = "array specification" in error.what
        raise SlurmRefusedError(error.what, _TOO_LARGE if is_size else error.hint) from error
    except SlurmUnreachableError as error:
        hint = "It may have been taken nevertheless: look with 'squeue --me' before you submit again."
        raise SlurmUnreachableError(error.what, hint) from error
    found = re.search(r"[0-9]+", printed)
    if found is None:
        raise SlurmRefusedError("sbatch named no job.", "Look with 'squeue --me' whether there is one.")
    return found[0]


def _what_next(job: str, wanted: Wanted) -> str:
    size = f"{wanted.tag.min_nodes} to {wanted.most_nodes} nodes"
    if wanted.tag.is_filler:
        least, most = wanted.tag.task_nodes or (1, 1)
        each = f"{least}" if least == most else f"{least} to {most}"
        size = (
            "idle nodes, one for each of its tasks" if most == 1 else f"idle nodes, {each} for each of its tasks"
        )
    return f"Job {job} waits for {size}; see it with 'freetrain jobs', end it with 'scancel {job}'."
