"""``freetrain submit`` and ``register`` hand a training to freetrain; ``unregister`` takes it back.

A training is a held array of one-node tasks with a tag in its comment.
"""

from __future__ import annotations

import os
import pwd
import shlex
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Unpack

import click

from freetrain.cli.helping import command
from freetrain.cli.options import Duration, config_option, options
from freetrain.client.submitting import CheckedTag, TagValues, check_tag, hand_in, prepare, read_slurm
from freetrain.config import Slurm
from freetrain.core.fragment_queue import FragmentQueue
from freetrain.core.job import Job
from freetrain.errors import InputError
from freetrain.slurm import commands
from freetrain.slurm.errors import SlurmBusyError, SlurmError, SlurmRefusedError
from freetrain.slurm.gateway import USERS_PAUSES_S
from freetrain.slurm.opening import OpenedWhenAsked
from freetrain.slurm.registration import find_obstacle, find_obstacle_to_leaving, make_ordinary, make_trainer
from freetrain.slurm.tags import KEYS, TAG_PREFIX, TagKey

_BY_NODES = ("min", "max", "nodes")


def _option(name: str, key: TagKey) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    meaning = f"{key.meaning[0].upper()}{key.meaning[1:]}."
    if key.is_duration:
        return click.option(f"--{name}", type=Duration(), help=meaning)
    return click.option(f"--{name}", metavar=key.metavar, help=meaning)


nodes_option = click.option(
    "--nodes",
    metavar="MIN-MAX",
    help="Nodes that it needs at least and can use at most; a single number is MAX, MIN is then 1. A filler "
    "(--kind tasks) has no MIN, and without --nodes as many as it has tasks.",
)
tag_options: Callable[[Callable[..., Any]], Callable[..., Any]] = options(
    *(_option(name, key) for name, key in KEYS.items() if name not in _BY_NODES),
    click.option(
        "--task-nodes",
        metavar="MIN-MAX",
        help="Of a filler: least and most nodes of each task. Its size is chosen when it starts, and stays.",
    ),
    click.option(
        "--partition",
        metavar="NAME",
        help=f"The preemptible partition [default: the configured slurm.partition, else {Slurm().partition}].",
    ),
)
dry_run_option = click.option(
    "--dry-run", is_flag=True, help="Print the commands, ready for a shell, and do nothing."
)


def warn(sentence: str) -> None:
    """Say what is odd, beside what scripts read."""
    click.echo(f"freetrain: {sentence}", err=True)


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


_HINT = "docs/users/submit.md says what a trainer is; 'freetrain submit' makes one."
_HELD = "JobHeldUser"


@command("register", first=("--nodes", "--name", "--dir", "--kind", "--dry-run"))
@nodes_option
@dry_run_option
@tag_options
@config_option
@click.argument("job", metavar="JOBID")
def register_command(
    config_path: Path | None,
    nodes: str | None,
    partition: str | None,
    dry_run: bool,
    job: str,
    **tag: Unpack[TagValues],
) -> None:
    """Hand your own waiting job to freetrain: an array of one-node tasks, or a job of one node.

    JOBID is the array's. The job is held, moved to freetrain's partition (and QOS), made requeueable, and tagged.
    """
    checked = check_tag(nodes, tag)
    read_job(job)
    settings = read_slurm(config_path, partition, warn)
    slurm = OpenedWhenAsked(settings.backend, settings.timeout)
    tasks = slurm.job(job)
    obstacle = find_obstacle(job, tasks, pwd.getpwuid(os.geteuid()).pw_name, checked.min_tasks)
    if obstacle is not None:
        raise InputError(obstacle, _HINT)
    plan = _plan(job, tasks[0], checked.comment, settings.queue)
    if dry_run:
        click.echo("\n".join(map(shlex.join, plan)))
        return
    *hold, change = plan
    for order in hold:
        slurm.perform_patiently(order, pauses_s=USERS_PAUSES_S)
    try:
        slurm.perform_patiently(change, pauses_s=USERS_PAUSES_S)
    except (SlurmRefusedError, SlurmBusyError):
        # Not where its owner had held it before.
        if hold and all(task.reason != _HELD for task in tasks):
            # The refusal is what the owner must hear of
            with suppress(SlurmError):
                slurm.perform_patiently(commands.release(job))
        raise
    click.echo(
        f"Job {job} is a trainer now: see 'freetrain jobs'; end it with 'freetrain cancel {job}'.", err=True
    )


def read_job(job: str) -> None:
    """See that this is a job's id.

    Raises:
        InputError: it is none.
    """
    if not (job.isascii() and job.isdecimal()):
        raise InputError(f"{job!r} is no job's id.", "Give the number that sbatch printed, an array's without _.")


def _plan(job: str, first: Job, comment: str, queue: FragmentQueue) -> tuple[commands.Command, ...]:
    # Of a trainer only the tag changes: it waits in the right place already.
    if first.comment.startswith(TAG_PREFIX) and queue.has(first):
        return (commands.set_comment(job, comment),)
    # Held first: an ordinary job could start while it is changed.
    return (commands.hold(job), make_trainer(job, comment, queue))


@command("unregister")
@click.option(
    "--to", "partition", metavar="PARTITION", help="Where it is to wait [default: where it waits, if by QOS]."
)
@dry_run_option
@config_option
@click.argument("job", metavar="JOBID")
def unregister_command(config_path: Path | None, partition: str | None, dry_run: bool, job: str) -> None:
    """Take your own job back from freetrain before it was lent a node: what 'freetrain register' did is undone.

    Its tag is removed, it moves to PARTITION, gets your default QOS again if fragments have one of their own,
    and is released. One that was lent a node already is ended with 'freetrain cancel', and submitted again.
    """
    settings = read_slurm(config_path, None, warn)
    read_job(job)
    slurm = OpenedWhenAsked(settings.backend, settings.timeout)
    user = pwd.getpwuid(os.geteuid()).pw_name
    obstacle = find_obstacle_to_leaving(job, slurm.job(job), user, settings.queue)
    if obstacle is not None:
        raise InputError(obstacle, f"'freetrain cancel {job}' ends it; 'freetrain jobs' lists trainers.")
    where = partition or (settings.partition if settings.queue.qos else "")
    if not where or (where == settings.partition and not settings.queue.qos):
        raise InputError(
            f"Partition {settings.partition} is for trainings alone.", "Say --to with one of the site's."
        )
    plan = (make_ordinary(job, where, bool(settings.queue.qos)), commands.release(job))
    if dry_run:
        click.echo("\n".join(map(shlex.join, plan)))
        return
    for order in plan:
        slurm.perform_patiently(order, pauses_s=USERS_PAUSES_S)
    click.echo(f"Job {job} is an ordinary job again, and waits in partition {where}.", err=True)
