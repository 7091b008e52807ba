"""``freetrain submit`` and ``register`` hand a training to freetrain; ``unregister`` takes it back.

A training is a held array of one-node tasks with a tag in its comment.
"""

from __future__ import annotations

import functools
import os
import pwd
import shlex
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import click

from freetrain.cli.helping import command
from freetrain.cli.options import DurationType, argument, config_option, option, options, shared_option
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
        return click.option(f"--{name}", type=DurationType(), help=meaning)
    return click.option(f"--{name}", metavar=key.metavar, help=meaning)


def _tag_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command an option for each key of a tag; it gets their values as one argument, ``tag``."""
    names = {*KEYS, "task_nodes"}.difference(_BY_NODES)

    @functools.wraps(command)
    def with_tag(**given: Any) -> Any:
        # In the order in which they are given: so they stand in the comment.
        tag = {name: given.pop(name) for name in tuple(given) if name in names}
        return command(tag=tag, **given)

    task_nodes = click.option(
        "--task-nodes",
        metavar="MIN-MAX",
        help="Of a filler: least and most nodes of each task. Its size is chosen when it starts, and stays.",
    )
    of_keys = (_option(name, key) for name, key in KEYS.items() if name not in _BY_NODES)
    return options(*of_keys, task_nodes)(with_tag)


_nodes = option(
    "--nodes",
    "Nodes that it needs at least and can use at most; a single number is MAX, MIN is then 1. A filler "
    "(--kind tasks) has no MIN, and without --nodes as many as it has tasks.",
    metavar="MIN-MAX",
)
_tag = shared_option(_tag_options)
_partition = option(
    "--partition",
    f"The preemptible partition [default: the configured slurm.partition, else {Slurm().partition}].",
    metavar="NAME",
)
_config = shared_option(config_option)
_dry_run = option("--dry-run", "Print the commands, ready for a shell, and do nothing.")


def warn(sentence: str) -> None:
    """Print a warning, beside what scripts read."""
    click.echo(f"freetrain: {sentence}", err=True)


@command(
    "submit",
    context_settings={"allow_interspersed_args": False},
    first=("--nodes", "--array", "--name", "--dir", "--sbatch"),
)
def submit_command(
    nodes: str | None = _nodes,
    array: str | None = option(
        "--array",
        "Hand in a filler: the tasks of an ordinary array, as 0-199, each of which runs once.",
        metavar="TASKS",
    ),
    sbatch: tuple[str, ...] = option(
        "--sbatch",
        "One more option of sbatch, in one word: --sbatch=--gpus-per-node=4. May be repeated.",
        metavar="OPTION",
    ),
    dry_run: bool = _dry_run,
    tag: TagValues = _tag,
    partition: str | None = _partition,
    part: bool = option(
        "--part",
        "Where the site lends parts of nodes: each task takes the part that it asks for (--gpus-per-node, "
        "--cpus-per-task, --mem), and not a whole node.",
    ),
    config_path: Path | None = _config,
    script: Path = argument(),
    arguments: tuple[str, ...] = argument(nargs=-1, type=click.UNPROCESSED),
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
def register_command(
    nodes: str | None = _nodes,
    dry_run: bool = _dry_run,
    tag: TagValues = _tag,
    partition: str | None = _partition,
    config_path: Path | None = _config,
    job: str = argument(metavar="JOBID"),
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
    """Check that this is a job's id.

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
def unregister_command(
    partition: str | None = option(
        "--to", "Where it is to wait [default: where it waits, if by QOS].", metavar="PARTITION"
    ),
    dry_run: bool = _dry_run,
    config_path: Path | None = _config,
    job: str = argument(metavar="JOBID"),
) -> None:
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
