"""``freetrain poke``: try out a script's elasticity before the cluster does."""

from __future__ import annotations

import time
import uuid
from pathlib import Path

import click

from freetrain.cli.helping import command
from freetrain.elastic.on_disk.directory import TrainerDirectory
from freetrain.errors import InputError

_PATIENCE_S = 10.0


@command("poke")
@click.argument("trainer", type=click.Path(path_type=Path))
@click.option("--lose", type=click.IntRange(1), metavar="N", help="Let N workers leave at the next step boundary.")
@click.option("--grow", type=click.IntRange(1), metavar="N", help="Start N more workers.")
@click.option("--kill", type=click.IntRange(1), metavar="N", help="Kill N workers without warning (SIGKILL).")
@click.option("--dry-run", is_flag=True, help="Say what would be done.")
def poke_command(trainer: Path, lose: int | None, grow: int | None, kill: int | None, dry_run: bool) -> None:
    """Make a running trainer lose, gain or suddenly miss workers.

    TRAINER is the directory given to 'freetrain run --trainer'. The workers that joined last go first.
    """
    if not (lose or grow or kill):
        raise InputError("nothing to do.", "Give at least one of --lose N, --grow N and --kill N.")
    directory = TrainerDirectory.existing(trainer)
    _check_alive(directory)
    if grow:
        _check_workers_are_independent(directory)
    if dry_run:
        _say(directory, lose or 0, grow or 0, kill or 0)
        return
    for member in _last_workers(directory, lose or 0):
        directory.leave(member)
        click.echo(f"{member} leaves at the next step boundary")
    asked = [directory.request(uuid.uuid4().hex, {"do": "grow"}) for _ in range(grow or 0)]
    for member in _last_workers(directory, kill or 0):
        asked.append(directory.request(uuid.uuid4().hex, {"do": "kill", "member": member}))
        click.echo(f"{member} is killed")
    _await_agents(directory, asked)
    if grow:
        click.echo(f"{grow} more started; they join once they have booted")


def _say(directory: TrainerDirectory, lose: int, grow: int, kill: int) -> None:
    last = _last_workers(directory, lose + kill)
    leaving, killed = last[kill:], last[:kill]
    for member in leaving:
        click.echo(f"{member} would leave at the next step boundary")
    for member in killed:
        click.echo(f"{member} would be killed")
    if grow:
        click.echo(f"{grow} more would be started")


def _check_alive(directory: TrainerDirectory) -> None:
    if not directory.view().current:
        raise InputError(
            f"no worker trains in {directory.root} just now.", "Start one with 'freetrain run --trainer DIR'."
        )


def _check_workers_are_independent(directory: TrainerDirectory) -> None:
    view = directory.view()
    shards = max((view.members[id_].shards for id_ in view.current), default=1)
    if shards > 1:
        raise InputError(
            f"the model is sharded over the {shards} workers of each node: one more cannot join alone.",
            f"Start another node: freetrain run --trainer {directory.root} --nproc {shards} -- COMMAND.",
        )


def _last_workers(directory: TrainerDirectory, count: int) -> tuple[str, ...]:
    """Those of the highest ranks."""
    view = directory.view()
    there = [id_ for id_ in view.current if id_ not in view.leaving]
    if count > len(there):
        raise InputError(f"asked for {count} workers, but only {len(there)} train.", "Ask for fewer.")
    return tuple(there[len(there) - count :])


def _await_agents(directory: TrainerDirectory, asked: list[Path]) -> None:
    until_s = time.monotonic() + _PATIENCE_S
    while any(path.exists() for path in asked):
        if time.monotonic() > until_s:
            for path in asked:
                directory.claim(path)
            raise InputError(
                f"no agent took the request within {_PATIENCE_S:g} s.",
                "Workers must have been started by 'freetrain run' for that, and not in restart mode.",
            )
        time.sleep(0.05)
