"""``freetrain register``: makes a trainer of a job that its owner has submitted already."""

from __future__ import annotations

import os
import pwd
import shlex
from contextlib import suppress

import click

from freetrain.cli.tagging import read_slurm_settings, read_wanted, tag_options
from freetrain.core.fragment_queue import FragmentQueue
from freetrain.core.job import Job
from freetrain.errors import InputError
from freetrain.slurm import commands, handing_in
from freetrain.slurm.errors import SlurmBusyError, SlurmError, SlurmRefusedError
from freetrain.slurm.opening import OpenedWhenAsked
from freetrain.slurm.patience import USERS_PAUSES_S, perform_patiently
from freetrain.slurm.registration import find_obstacle
from freetrain.slurm.tags import TAG_PREFIX

_HINT = "docs/users/submit.md says what a trainer is; 'freetrain submit' makes one."
_HELD = "JobHeldUser"


@click.command("register")
@tag_options
@click.argument("job", metavar="JOBID")
def register_command(
    nodes: str | None, partition: str | None, dry_run: bool, job: str, **given: str | float | None
) -> None:
    """Hand your own waiting job to freetrain: an array of one-node tasks, or a job of one node.

    JOBID is the array's. The job is held, moved to freetrain's partition (and QOS), made requeueable, and tagged.
    """
    wanted = read_wanted(nodes, given)
    read_job(job)
    settings = read_slurm_settings(partition)
    slurm = OpenedWhenAsked(settings.backend, settings.timeout)
    tasks = slurm.job(job)
    obstacle = find_obstacle(job, tasks, pwd.getpwuid(os.geteuid()).pw_name, wanted.fewest_tasks)
    if obstacle is not None:
        raise InputError(obstacle, _HINT)
    plan = _plan(job, tasks[0], wanted.comment, settings.queue)
    if dry_run:
        click.echo("\n".join(map(shlex.join, plan)))
        return
    *hold, change = plan
    for command in hold:
        perform_patiently(slurm, command, pauses_s=USERS_PAUSES_S)
    try:
        perform_patiently(slurm, change, pauses_s=USERS_PAUSES_S)
    except (SlurmRefusedError, SlurmBusyError):
        if hold and all(task.reason != _HELD for task in tasks):
            with suppress(SlurmError):  # the refusal is what the owner must hear of
                perform_patiently(slurm, commands.release(job))
        raise
    click.echo(f"Job {job} is a trainer now; see it with 'freetrain jobs', end it with 'scancel {job}'.", err=True)


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
    return (commands.hold(job), handing_in.make_trainer(job, comment, queue))
