"""``freetrain run``: the agent that a fragment runs on its node, or a user on a laptop."""

from __future__ import annotations

import logging
import os
import re
import signal
import time
from dataclasses import replace
from pathlib import Path

import click

from freetrain.cli.helping import command
from freetrain.cli.options import Duration
from freetrain.elastic.errors import NOT_ADOPTED_STATUS
from freetrain.elastic.membership.identity import use_interface
from freetrain.elastic.on_disk.directory import TRAINER_VARIABLE, TrainerDirectory
from freetrain.elastic.on_node.agent import Agent
from freetrain.elastic.on_node.restart import LAST_NUMBER, RestartAgent, RestartProgress, WatchedSteps
from freetrain.elastic.on_node.standby import with_runner
from freetrain.elastic.on_node.workers import END_TIMEOUT_S, AgentEnd, AgentOptions, Signals, count_gpus
from freetrain.elastic.timeouts import Timeouts
from freetrain.errors import InputError

_ADOPTING = "freetrain.elastic.adopting"
_ALWAYS = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1)


def _server_count(context: click.Context, option: click.Parameter, given: str) -> int | None:
    """A number of servers; None for ``auto``: as freetrain says."""
    if given == "auto":
        return None
    if not given.isascii() or not given.isdigit():
        raise click.BadParameter(f"{given!r} is neither a number nor auto.", context, option)
    return int(given)


@command("run", first=("--trainer", "--nproc", "--adopt", "--restart", "--servers"))
@click.option(
    "--trainer",
    "root",
    type=click.Path(path_type=Path),
    envvar=TRAINER_VARIABLE,
    metavar="DIR",
    help="The trainer's directory on the shared file system; a new one in the working directory by default.",
)
@click.option("--nproc", type=click.IntRange(1), help="Workers on this node.  [default: one per GPU, else 1]")
@click.option(
    "--servers",
    callback=_server_count,
    default="0",
    show_default=True,
    metavar="N|auto",
    help="Let N servers add up the workers' gradients: processes that run on as many of the trainer's nodes. "
    "auto: as many as freetrain says, on the nodes that it names (the tag's servers and step).",
)
@click.option(
    "--restart", is_flag=True, help="For unmodified torchrun-style scripts: restart them at every rescale."
)
@click.option(
    "--adopt",
    is_flag=True,
    help="For unmodified torchrun-style scripts with DistributedDataParallel: let them grow and shrink while they "
    "run; scripts of other forms are restarted, as with --restart.",
)
@click.option(
    "--ranks",
    type=click.IntRange(2),
    metavar="N",
    help="With --adopt: run the script as for N ranks, however many there are.  [default: --nproc, at least 2]",
)
@click.option(
    "--steps-from",
    "steps_path",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="With --restart: a file, such as its log, in which the script writes how many steps it has done.",
)
@click.option(
    "--steps-pattern",
    default=LAST_NUMBER,
    show_default=True,
    metavar="REGEX",
    help="Finds the number of steps in a line of that file, as its first group; the last such line counts.",
)
@click.option(
    "--samples-per-step",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    metavar="N",
    help="Samples in each of these steps, over all ranks.",
)
@click.option("--min", "min_members", type=click.IntRange(1), help="Members needed to start from nothing.")
@click.option(
    "--max-restarts", type=click.IntRange(0), default=3, show_default=True, help="Failed workers to replace."
)
@click.option(
    "--leave-timeout",
    "leave_timeout_s",
    type=Duration(),
    help="How long workers may take to the next step boundary when they must leave, before they are killed."
    f"  [default: {END_TIMEOUT_S:g}s]",
)
@click.option(
    "--save-timeout",
    "save_timeout_s",
    type=Duration(),
    help="With --restart: how long the script may take to save and end after SIGTERM, before it is killed."
    f"  [default: {END_TIMEOUT_S:g}s]",
)
@click.option(
    "--interface",
    envvar="FREETRAIN_INTERFACE",
    metavar="NAME,…",
    help="Network interface by which the nodes reach each other, as ib0; of several the first that this node has.",
)
@click.option(
    "--logs",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Write each worker's output into a file of its own in this folder.",
)
@click.option("--leave-on", "leave_on", metavar="SIGNAL", help="One more signal to leave on, for example USR2.")
@click.option("-v", "--verbose", is_flag=True, help="Say what happens.")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- COMMAND…")
def run_command(
    root: Path | None,
    nproc: int | None,
    servers: int | None,
    restart: bool,
    adopt: bool,
    ranks: int | None,
    steps_path: Path | None,
    steps_pattern: str,
    samples_per_step: int,
    min_members: int | None,
    max_restarts: int,
    leave_timeout_s: float | None,
    save_timeout_s: float | None,
    interface: str | None,
    logs: Path | None,
    leave_on: str | None,
    verbose: bool,
    command: tuple[str, ...],
) -> None:
    """Join a trainer with this node, and run its workers until the training is complete or the node must leave.

    SIGTERM, SIGINT and SIGUSR1 make the workers leave at the next step boundary; the exit status is then 0.
    Where the training is complete already it ends at once, with 0 as well.
    """
    logging.basicConfig(level=logging.INFO if verbose else logging.WARNING, format="freetrain: %(message)s")
    if root is None:
        root = Path(time.strftime("freetrain-trainer-%Y%m%d-%H%M%S"))
        click.echo(f"freetrain: trainer directory {root}", err=True)
    directory = TrainerDirectory.open(root)
    if directory.finished_path.exists():
        # So ends the rest of an array of which nobody could tell that it is complete.
        click.echo(f"freetrain: the training is complete; remove {directory.finished_path} to go on", err=True)
        return
    end_timeout_s = _end_timeout_s(restart, adopt, leave_timeout_s, save_timeout_s)
    _check_servers(restart or adopt, servers)
    if interface:
        use_interface(interface)
    if logs is not None:
        logs.mkdir(parents=True, exist_ok=True)
    options = AgentOptions(command, nproc or count_gpus() or 1, max_restarts, end_timeout_s, servers, logs)
    if min_members is not None:
        os.environ["FREETRAIN_MIN_MEMBERS"] = str(min_members)
    steps = _watched(restart or adopt, steps_path, steps_pattern)
    progress = RestartProgress(directory.progress_path, steps, samples_per_step)
    with Signals((*_ALWAYS, *_extra(leave_on))) as signals:
        if adopt:
            adopted = replace(
                options, command=with_runner(command, _ADOPTING), ranks=ranks or max(2, options.nproc)
            )
            restart, ending = _adopt(directory, adopted, signals)
        elif not restart:
            ending = Agent(directory, options, signals).run()
        if restart:
            ending = RestartAgent(directory, options, signals, Timeouts.from_environment(), progress).run()
    click.echo(f"freetrain: {ending.reason}", err=True)
    raise SystemExit(ending.status)


def _adopt(directory: TrainerDirectory, options: AgentOptions, signals: Signals) -> tuple[bool, AgentEnd]:
    """Run a script adopted; whether it has to be restarted at every change instead, and how it ended otherwise."""
    reason = directory.why_not_adopted()
    ending = AgentEnd(NOT_ADOPTED_STATUS, reason) if reason else Agent(directory, options, signals).run()
    is_refused = ending.status == NOT_ADOPTED_STATUS
    if is_refused:
        click.echo(f"freetrain: the script is restarted at every change of size, since {ending.reason}.", err=True)
    return is_refused, ending


def _check_servers(restart: bool, servers: int | None) -> None:
    if restart and servers != 0:
        raise InputError(
            "--servers is not for --restart or --adopt.",
            "Leave it out, or let the script train with freetrain.elastic.",
        )


def _end_timeout_s(
    restart: bool, adopt: bool, leave_timeout_s: float | None, save_timeout_s: float | None
) -> float:
    if adopt:
        return max(leave_timeout_s or END_TIMEOUT_S, save_timeout_s or END_TIMEOUT_S)
    if restart and leave_timeout_s is not None:
        raise InputError(
            "--leave-timeout is not for --restart: its scripts know nothing of step boundaries.",
            "Give --save-timeout, the time from SIGTERM until they are killed.",
        )
    if not restart and save_timeout_s is not None:
        raise InputError(
            "--save-timeout is for --restart only.",
            "Give --leave-timeout to a script that uses freetrain.elastic.",
        )
    given_s = save_timeout_s if restart else leave_timeout_s
    return END_TIMEOUT_S if given_s is None else given_s


def _watched(restart: bool, path: Path | None, pattern: str) -> WatchedSteps | None:
    if path is None:
        return None
    if not restart:
        raise InputError(
            "--steps-from is for --restart only.", "A script that uses freetrain.elastic tells its steps itself."
        )
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise InputError(
            f"--steps-pattern {pattern}: {error}.", "Write a regular expression with a group."
        ) from error
    if not compiled.groups:
        raise InputError(
            f"--steps-pattern {pattern} has no group.", "Put the number of steps in parentheses: 'step (\\d+)'."
        )
    return WatchedSteps(path.absolute(), compiled)


def _extra(name: str | None) -> tuple[signal.Signals, ...]:
    if name is None:
        return ()
    full = name.upper() if name.upper().startswith("SIG") else f"SIG{name.upper()}"
    if full not in signal.Signals.__members__ or full in ("SIGKILL", "SIGSTOP"):
        raise InputError(f"--leave-on {name}: no signal of that name can be handled.", "Try USR2 or SIGUSR2.")
    return (signal.Signals[full],)
