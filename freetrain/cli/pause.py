"""``freetrain pause``: lend nothing more, and take nothing back; ``freetrain resume`` ends it."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path

import click

from freetrain.cli.helping import command
from freetrain.cli.noting import AuditWriter, who_am_i
from freetrain.cli.options import config_option, end_of, end_options
from freetrain.config import load_config
from freetrain.config.sections import State
from freetrain.daemon.controls.nudge import send_nudge
from freetrain.daemon.controls.pause import Pause, read_pause, stop_file_there, write_pause
from freetrain.daemon.state_directory import is_claimed
from freetrain.errors import FreetrainError

_LONGEST_REASON = 200


@command("pause")
@config_option
@end_options
@click.option("--reason", default="", help="Why; everybody sees it.")
@click.option("--dry-run", is_flag=True, help="Say what would be done.")
def pause_command(
    config_path: Path | None, until_s: float | None, for_s: float | None, reason: str, dry_run: bool
) -> None:
    """Lend nothing more, until a time, or until 'freetrain resume'.

    What is lent stays lent and gives way to the site's jobs as always; 'freetrain drain' takes nodes back. This is
    for accounts that may write the daemon's state directory: root, and the daemon's account.
    """
    directory = Path(load_config(config_path).config.state.directory)
    now_s = time.time()
    pause = Pause(
        by=who_am_i(), reason=reason[:_LONGEST_REASON], since_s=now_s, until_s=end_of(until_s, for_s, now_s)
    )
    if dry_run:
        click.echo(f"would lend nothing more: {pause.sentence}")
        return
    with AuditWriter(directory).noted("freetrain pause", result=pause.sentence):
        write_pause(directory, pause)
    click.echo(f"Nothing more is lent: {pause.sentence}.")
    tell_daemon(directory)


def end_pause(state: State, dry_run: bool) -> None:
    """Let the daemon lend again.

    Args:
        state: where it keeps what it knows.
        dry_run: only say so.
    """
    directory, stop_file = Path(state.directory), stop_file_there(state)
    stops = f" Nothing is lent while {stop_file} exists: remove it." if stop_file else ""
    if read_pause(directory, time.time()) is None:
        click.echo(f"Lending is not paused.{stops}")
        return
    if dry_run:
        click.echo("would end the pause")
        return
    with AuditWriter(directory).noted("freetrain resume"):
        write_pause(directory, None)
    click.echo(f"The pause has ended.{stops}" if stops else "Nodes are lent again.")
    tell_daemon(directory)


def tell_daemon(directory: Path) -> None:
    """Let it look at once; say so if there is none."""
    if is_claimed(directory):
        with suppress(FreetrainError):  # it looks soon in any case
            send_nudge(directory)
    else:
        click.echo(f"freetrain: no daemon works in {directory}: this counts from its next start on.", err=True)
