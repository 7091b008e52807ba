"""``freetrain panic``: everything lent is taken back now, with or without a daemon."""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import click

from freetrain.cli.helping import command
from freetrain.cli.noting import AuditWriter
from freetrain.cli.options import config_option
from freetrain.config import Config, load_config
from freetrain.core.cluster import Snapshot
from freetrain.core.fragment import Fragment, FragmentState
from freetrain.core.fragment_queue import FragmentQueue
from freetrain.daemon.setup import launcher_of
from freetrain.errors import FreetrainError
from freetrain.lending.reconcile import find_strangers
from freetrain.slurm import commands
from freetrain.slurm.commands import Command
from freetrain.slurm.errors import SlurmError
from freetrain.slurm.gateway import Gateway
from freetrain.slurm.launcher import Launcher
from freetrain.slurm.opening import OpenedWhenAsked
from freetrain.slurm.submissions import find_submissions


@command("panic")
@config_option
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--dry-run", is_flag=True, help="Print the commands.")
def panic_command(config_path: Path | None, yes: bool, dry_run: bool) -> None:
    """Take everything back now and lend nothing more: no daemon is needed for it.

    The stop file is written, so that no daemon lends; tagged tasks that wait are held; running fragments are
    requeued and held (with lend.launcher = "submit" cancelled). Nothing without freetrain's tag is touched.

    This is for root and for accounts that may steer the jobs of others.
    """
    config = load_config(config_path).config
    slurm = OpenedWhenAsked(config.slurm.backend, config.slurm.timeout)
    stop_file = Path(config.state.stop_file)
    if dry_run:
        click.echo(f"touch {stop_file}")
        for command in panic_orders(slurm.snapshot(), config, launcher_of(config, slurm)):
            click.echo(shlex.join(command))
        return
    if not yes and sys.stdin.isatty():
        click.confirm("Take back all that freetrain has lent?", abort=True)
    problem = _stop(stop_file)  # before the audit, which may wait for a locked database
    audit = AuditWriter(Path(config.state.directory))
    with audit.noted("freetrain panic", result=f"{stop_file} is written"):
        orders = panic_orders(slurm.snapshot(), config, launcher_of(config, slurm))
        failed = [what for order in orders if (what := _perform(slurm, order, audit))]
        if problem:
            failed.append(problem)
        else:
            click.echo(f"{stop_file} is written: remove it to lend again.")
        if failed:
            raise FreetrainError(f"not everything was done: {' '.join(failed)}", _close(config.slurm.queue))


def panic_orders(snapshot: Snapshot, config: Config, launcher: Launcher) -> Sequence[Command]:
    """What is to be ordered from Slurm: first that nothing starts any more, then that what runs ends."""
    queue = config.slurm.queue
    ours = [
        (job, trainer)
        for job in snapshot.jobs
        if queue.has(job) and (trainer := launcher.of_trainer(job)) is not None
    ]
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


def _close(queue: FragmentQueue) -> str:
    if queue.qos:
        return f"Let nothing start: sacctmgr -i modify qos {queue.qos} set GrpJobs=0"
    lines = (f"scontrol update PartitionName={name} State=DOWN" for name in queue.partitions)
    return f"Close the partition: {'; '.join(lines)}"


def _stop(path: Path) -> str:
    """Write the stop file; what went wrong."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"freetrain panic, {time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime())}\n")
    except OSError as error:
        return f"{path} cannot be written: {error.strerror}."
    return ""


def _perform(slurm: Gateway, order: Command, audit: AuditWriter) -> str:
    """Tell Slurm; what went wrong."""
    click.echo(shlex.join(order))
    try:
        with audit.noted("freetrain panic", order):
            slurm.perform(order)
    except SlurmError as error:
        return error.what
    return ""
