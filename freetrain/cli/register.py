"""``freetrain register`` makes a trainer of a job that is submitted, ``freetrain unregister`` undoes it."""

from __future__ import annotations

import os
import pwd
import shlex
from contextlib import suppress
from pathlib import Path
from typing import Unpack

import click

from freetrain.cli.helping import command
from freetrain.cli.options import config_option
from freetrain.cli.tagging import dry_run_option, nodes_option, tag_options, warn
from freetrain.client.submitting import TagValues, check_tag, read_slurm
from freetrain.core.fragment_queue import FragmentQueue
from freetrain.core.job import Job
from freetrain.errors import InputError
from freetrain.slurm import commands
from freetrain.slurm.errors import SlurmBusyError, SlurmError, SlurmRefusedError
from freetrain.slurm.opening import OpenedWhenAsked
from freetrain.slurm.patience import USERS_PAUSES_S, perform_patiently
from freetrain.slurm.registration import (
    find_obstacle,
    find_obstacle_to_leaving,
    make_ordinary,
    make_trainer,
)
from freetrain.slurm.tags import TAG_PREFIX

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
        perform_patiently(slurm, order, pauses_s=USERS_PAUSES_S)
    try:
        perform_patiently(slurm, change, pauses_s=USERS_PAUSES_S)
    except (SlurmRefusedError, SlurmBusyError):
        if hold and all(task.reason != _HELD for task in tasks):
            with suppress(SlurmError):  # the refusal is what the owner must hear of
                perform_patiently(slurm, commands.release(job))
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
    """Held before it is changed, so that it does not start meanwhile; of a trainer only the tag changes."""
    if first.comment.startswith(TAG_PREFIX) and queue.has(first):
        return (commands.set_comment(job, comment),)
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
        perform_patiently(slurm, order, pauses_s=USERS_PAUSES_S)
    click.echo(f"Job {job} is an ordinary job again, and waits in partition {where}.", err=True)
