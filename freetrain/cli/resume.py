"""``freetrain resume``: says that a paused training was looked at, and shall go on."""

from __future__ import annotations

from pathlib import Path

import click

from freetrain.cli.options import config_option
from freetrain.config import load_config
from freetrain.errors import InputError
from freetrain.slurm import commands
from freetrain.slurm.opening import OpenedWhenAsked
from freetrain.slurm.submissions import find_submissions
from freetrain.slurm.tags import ANSWER


@click.command("resume")
@config_option
@click.argument("id_", metavar="ID")
def resume_command(config_path: Path | None, id_: str) -> None:
    """Let a training that freetrain paused after failures compete for nodes again.

    This takes freetrain's answer out of the job's comment, which only its owner may do, or an operator.
    """
    config = load_config(config_path).config
    gateway = OpenedWhenAsked(config.slurm.backend, config.slurm.timeout)
    submission = find_submissions(gateway.snapshot().jobs, config.slurm.partition).get(id_)
    if submission is None:
        raise InputError(f"There is no training {id_}.", "freetrain jobs lists them.")
    tag, answer, _ = submission.comment.partition(ANSWER)
    if not answer:
        raise InputError(f"Training {id_} is not paused.", "freetrain jobs shows its state.")
    gateway.perform(commands.set_comment(id_, tag))
    click.echo(f"Training {id_} competes for nodes again.")
