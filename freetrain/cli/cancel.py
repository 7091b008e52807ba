"""``freetrain cancel`` ends a training for good; ``freetrain panic`` takes everything back at once."""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import click

from freetrain.cli.helping import command
from freetrain.cli.options import argument, option
from freetrain.cli.site import AuditWriter, Site
from freetrain.config import Config
from freetrain.core.cluster import Snapshot
from freetrain.core.fragment import Fragment, FragmentState
from freetrain.core.fragment_queue import FragmentQueue
from freetrain.daemon.setup import launcher_of
from freetrain.errors import ExitCode, FreetrainError
from freetrain.lending.reconcile import find_strangers
from freetrain.slurm import commands
from freetrain.slurm.commands import Command
from freetrain.slurm.errors import SlurmError, SlurmRefusedError
from freetrain.slurm.gateway import USERS_PAUSES_S, Gateway
from freetrain.slurm.launcher import Launcher, jobs_of_trainers
from freetrain.slurm.submissions import Submission, find_submissions

_YES = option("--yes", "Do not ask.")


@command("cancel")
def cancel_command(
    site: Site,
    yes: bool = _YES,
    dry_run: bool = option("--dry-run", "Print what Slurm would be ordered to do."),
    id_: str = argument(metavar="ID"),
) -> None:
    """End the training ID for good: what waits of it is cancelled, and what runs of it gets its SIGTERM.

    Slurm lets its owner do so, and accounts that may steer the jobs of others. It is what scancel does with the
    array; with lend.launcher = "submit" the fragments that freetrain submitted for it are cancelled at once, too.
    No daemon is needed.
    """
    snapshot = site.slurm.snapshot()
    submission = site.training(id_, snapshot)
    if submission.is_over:
        raise FreetrainError(
            f"All tasks of training {id_} have ended, and Slurm cancels nothing that has ended.",
            "If they failed the daemon takes them up at its next look: try again then.",
            ExitCode.TRY_AGAIN,
        )
    orders = cancel_orders(submission, snapshot, site.config, launcher_of(site.config, site.slurm))
    if dry_run:
        click.echo("\n".join(map(shlex.join, orders)))
        return
    if not yes and sys.stdin.isatty():
        click.confirm(f"Cancel training {id_} of {submission.owner}?", abort=True)
    for order in orders:
        with site.audit.noted(f"freetrain cancel {id_}", order):
            _perform(site.slurm, order, submission)
    site.nudge()
    click.echo(f"Training {id_} of {submission.owner} is cancelled; what runs of it ends now.")


def cancel_orders(submission: Submission, snapshot: Snapshot, config: Config, launcher: Launcher) -> list[Command]:
    """What is to be ordered from Slurm."""
    fragments = tuple(
        Fragment(job.id, trainer, "", FragmentState.RUNNING, snapshot.time_s, 0.0)
        for job, trainer in jobs_of_trainers(snapshot, config.slurm.queue, launcher)
        if not job.state.is_final and trainer == submission.id
    )
    return [order.command for order in launcher.end(replace(submission, fragments=fragments), "cancelled")]


def _perform(gateway: Gateway, order: Command, submission: Submission) -> None:
    try:
        gateway.perform_patiently(order, pauses_s=USERS_PAUSES_S)
    except SlurmRefusedError as error:
        # "Access/permission denied": the one refusal that another account would not get.
        if "denied" in error.what:
            error.hint = f"Only {submission.owner} and accounts that may steer the jobs of others may cancel it."
            error.exit_code = ExitCode.NOT_ALLOWED
        raise


@command("panic")
def panic_command(
    site: Site, yes: bool = _YES, dry_run: bool = option("--dry-run", "Print the commands.")
) -> None:
    """Take everything back now and lend nothing more: no daemon is needed for it.

    The stop file is written, so that no daemon lends; tagged tasks that wait are held; running fragments are
    requeued and held (with lend.launcher = "submit" cancelled). Nothing without freetrain's tag is touched.

    This is for root and for accounts that may steer the jobs of others.
    """
    config, slurm = site.config, site.slurm
    stop_file = Path(config.state.stop_file)
    if dry_run:
        click.echo(f"touch {stop_file}")
        for command in panic_orders(slurm.snapshot(), config, launcher_of(config, slurm)):
            click.echo(shlex.join(command))
        return
    if not yes and sys.stdin.isatty():
        click.confirm("Take back all that freetrain has lent?", abort=True)
    # Before the audit, which may wait for a locked database
    problem = _write_stop_file(stop_file)
    with site.audit.noted("freetrain panic", result=f"{stop_file} is written"):
        orders = panic_orders(slurm.snapshot(), config, launcher_of(config, slurm))
        failed = [what for order in orders if (what := _take_back(slurm, order, site.audit))]
        if problem:
            failed.append(problem)
        else:
            click.echo(f"{stop_file} is written: remove it to lend again.")
        if failed:
            raise FreetrainError(f"not everything was done: {' '.join(failed)}", _how_to_close(config.slurm.queue))


def panic_orders(snapshot: Snapshot, config: Config, launcher: Launcher) -> Sequence[Command]:
    """What is to be ordered from Slurm: first that nothing starts any more, then that what runs ends."""
    queue = config.slurm.queue
    ours = jobs_of_trainers(snapshot, queue, launcher)
    running = find_strangers(ours)
    starting = [
        Fragment(job.id, trainer, "", FragmentState.ASKED, snapshot.time_s, 0.0)
        for job, trainer in ours
        if job.state.is_waiting and not job.is_held
    ]
    starting_jobs = {fragment.job for fragment in starting}
    stray = [
        task.id
        for submission in find_submissions(snapshot.jobs, queue).values()
        for task in submission.tasks
        if task.state.is_waiting and not task.is_held and task.id not in starting_jobs
    ]
    holds = [commands.hold(*stray)] if stray else []
    return [*holds, *(order.command for order in launcher.stop([*starting, *running], "panic"))]


def _how_to_close(queue: FragmentQueue) -> str:
    if queue.qos:
        return f"Let nothing start: sacctmgr -i modify qos {queue.qos} set GrpJobs=0"
    lines = (f"scontrol update PartitionName={name} State=DOWN" for name in queue.partitions)
    return f"Close the partition: {'; '.join(lines)}"


def _write_stop_file(path: Path) -> str:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"freetrain panic, {time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime())}\n")
    except OSError as error:
        return f"{path} cannot be written: {error.strerror}."
    return ""


def _take_back(slurm: Gateway, order: Command, audit: AuditWriter) -> str:
    click.echo(shlex.join(order))
    try:
        with audit.noted("freetrain panic", order):
            slurm.perform(order)
    except SlurmError as error:
        return error.what
    return ""
