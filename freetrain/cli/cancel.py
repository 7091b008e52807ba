"""``freetrain cancel``: ends a training for good, by its owner or by an admin."""

from __future__ import annotations

import shlex
import sys
from contextlib import suppress
from pathlib import Path

import click

from freetrain.cli.helping import command
from freetrain.cli.noting import AuditWriter
from freetrain.cli.options import config_option
from freetrain.config import Config, load_config
from freetrain.core.cluster import Snapshot
from freetrain.core.fragment import Fragment, FragmentState
from freetrain.daemon.controls.nudge import send_nudge
from freetrain.daemon.setup import launcher_of
from freetrain.errors import ExitCode, FreetrainError, InputError
from freetrain.slurm.commands import Command
from freetrain.slurm.errors import SlurmRefusedError
from freetrain.slurm.gateway import Gateway
from freetrain.slurm.launcher import Launcher
from freetrain.slurm.opening import OpenedWhenAsked
from freetrain.slurm.patience import USERS_PAUSES_S, perform_patiently
from freetrain.slurm.submissions import Submission, find_submissions


@command("cancel")
@config_option
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--dry-run", is_flag=True, help="Print what Slurm would be ordered to do.")
@click.argument("id_", metavar="ID")
def cancel_command(config_path: Path | None, yes: bool, dry_run: bool, id_: str) -> None:
    """End the training ID for good: what waits of it is cancelled, and what runs of it gets its SIGTERM.

    Slurm lets its owner do so, and accounts that may steer the jobs of others. It is what scancel does with the
    array; with lend.launcher = "submit" the fragments that freetrain submitted for it are cancelled at once, too.
    No daemon is needed.
    """
    config = load_config(config_path).config
    gateway = OpenedWhenAsked(config.slurm.backend, config.slurm.timeout)
    snapshot = gateway.snapshot()
    submission = find_submissions(snapshot.jobs, config.slurm.queue).get(id_)
    if submission is None:
        raise InputError(f"There is no training {id_}.", "freetrain jobs lists them.")
    if submission.is_over:
        raise FreetrainError(
            f"All tasks of training {id_} have ended, and Slurm cancels nothing that has ended.",
            "If they failed the daemon takes them up at its next look: try again then.",
            ExitCode.TRY_AGAIN,
        )
    orders = cancel_orders(submission, snapshot, config, launcher_of(config, gateway))
    if dry_run:
        click.echo("\n".join(map(shlex.join, orders)))
        return
    if not yes and sys.stdin.isatty():
        click.confirm(f"Cancel training {id_} of {submission.owner}?", abort=True)
    audit = AuditWriter(Path(config.state.directory))
    for order in orders:
        with audit.noted(f"freetrain cancel {id_}", order):
            _perform(gateway, order, submission)
    with suppress(FreetrainError):  # the daemon may be on another machine; it looks by itself
        send_nudge(Path(config.state.directory))
    click.echo(f"Training {id_} of {submission.owner} is cancelled; what runs of it ends now.")


def cancel_orders(submission: Submission, snapshot: Snapshot, config: Config, launcher: Launcher) -> list[Command]:
    """What is to be ordered from Slurm."""
    fragments = [
        Fragment(job.id, submission.id, "", FragmentState.RUNNING, snapshot.time_s, 0.0)
        for job in snapshot.jobs
        if config.slurm.queue.has(job) and not job.state.is_final and launcher.of_trainer(job) == submission.id
    ]
    return [order.command for order in launcher.end(submission, fragments, "cancelled")]


def _perform(gateway: Gateway, order: Command, submission: Submission) -> None:
    try:
        perform_patiently(gateway, order, pauses_s=USERS_PAUSES_S)
    except SlurmRefusedError as error:
        if "denied" in error.what:
            error.hint = f"Only {submission.owner} and accounts that may steer the jobs of others may cancel it."
            error.exit_code = ExitCode.NOT_ALLOWED
        raise
