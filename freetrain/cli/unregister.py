"""``freetrain unregister``: makes an ordinary job again of a trainer that was never lent a node."""

from __future__ import annotations

import os
import pwd
import shlex
from pathlib import Path

import click

from freetrain.cli.helping import command
from freetrain.cli.options import config_option
from freetrain.cli.register import read_job
from freetrain.cli.tagging import dry_run_option, warn
from freetrain.client.submitting import read_slurm
from freetrain.errors import InputError
from freetrain.slurm import commands, handing_in
from freetrain.slurm.opening import OpenedWhenAsked
from freetrain.slurm.patience import USERS_PAUSES_S, perform_patiently
from freetrain.slurm.registration import find_obstacle_to_leaving


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
    plan = (handing_in.make_ordinary(job, where, bool(settings.queue.qos)), commands.release(job))
    if dry_run:
        click.echo("\n".join(map(shlex.join, plan)))
        return
    for order in plan:
        perform_patiently(slurm, order, pauses_s=USERS_PAUSES_S)
    click.echo(f"Job {job} is an ordinary job again, and waits in partition {where}.", err=True)
