"""``freetrain run``: the agent that a fragment runs on its node, or a user on a laptop."""

from __future__ import annotations

import logging
import os
import re
import signal
import time
from dataclasses import dataclass, replace
from pathlib import Path

import click

from freetrain.cli.helping import command
from freetrain.cli.options import option, takes_options
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


def _server_count(context: click.Context, parameter: click.Parameter, given: str) -> int | None:
    """A number of servers; None for ``auto``: as freetrain says."""
    if given == "auto":
        return None
    if not given.isascii() or not given.isdigit():
        raise click.BadParameter(f"{given!r} is neither a number nor auto.", context, parameter)
    return int(given)


@dataclass(frozen=True, slots=True)
class RunOptions:
    """The options of ``freetrain run``."""

    root: Path | None = option(
        "--trainer",
        "The trainer's directory on the shared file system; a new one in the working directory by default.",
        envvar=TRAINER_VARIABLE,
        metavar="DIR",
    )
    nproc: int | None = option(
        "--nproc", "Workers on this node.  [default: one per GPU, else 1]", type=click.IntRange(1)
    )
    servers: int | None = option(
        "--servers",
        "Let N servers add up the workers' gradients: processes that run on as many of the trainer's nodes. "
        "auto: as many as freetrain says, on the nodes that it names (the tag's servers and step).",
        callback=_server_count,
        default="0",
        metavar="N|auto",
    )
    restart: bool = option("--restart", "For unmodified torchrun-style scripts: restart them at every rescale.")
    adopt: bool = option(
        "--adopt",
        "For unmodified torchrun-style scripts with DistributedDataParallel: let them grow and shrink while they "
        "run; scripts of other forms are restarted, as with --restart.",
    )
    ranks: int | None = option(
        "--ranks",
        "With --adopt: run the script as for N ranks, however many there are.  [default: --nproc, at least 2]",
        type=click.IntRange(2),
        metavar="N",
    )
    steps_path: Path | None = option(
        "--steps-from",
        "With --restart: a file, such as its log, in which the script writes how many steps it has done.",
        type=click.Path(dir_okay=False, path_type=Path),
        metavar="FILE",
    )
    steps_pattern: str = option(
        "--steps-pattern",
        "Finds the number of steps in a line of that file, as its first group; the last such line counts.",
        default=LAST_NUMBER,
        metavar="REGEX",
    )
    samples_per_step: int = option(
        "--samples-per-step",
        "Samples in each of these steps, over all ranks.",
        type=click.IntRange(1),
        default=1,
        metavar="N",
    )
    min_members: int | None = option("--min", "Members needed to start from nothing.", type=click.IntRange(1))
    max_restarts: int = option("--max-restarts", "Failed workers to replace.", type=click.IntRange(0), default=3)
    leave_timeout_s: float | None = option(
        "--leave-timeout",
        "How long workers may take to the next step boundary when they must leave, before they are killed."
        f"  [default: {END_TIMEOUT_S:g}s]",
    )
    save_timeout_s: float | None = option(
        "--save-timeout",
        "With --restart: how long the script may take to save and end after SIGTERM, before it is killed."
        f"  [default: {END_TIMEOUT_S:g}s]",
    )
    interface: str | None = option(
        "--interface",
        "Network interface by which the nodes reach each other, as ib0; of several the first that this node has.",
        envvar="FREETRAIN_INTERFACE",
        metavar="NAME,…",
    )
    logs: Path | None = option(
        "--logs",
        "Write each worker's output into a file of its own in this folder.",
        type=click.Path(file_okay=False, path_type=Path),
        metavar="DIR",
    )
    leave_on: str | None = option("--leave-on", "One more signal to leave on, for example USR2.", metavar="SIGNAL")
    verbose: bool = option("-v --verbose", "Say what happens.")

    @property
    def restarts(self) -> bool:
        """Whether the script may be restarted at a change of size."""
        return self.restart or self.adopt


@command("run", first=("--trainer", "--nproc", "--adopt", "--restart", "--servers"))
@takes_options(RunOptions)
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- COMMAND…")
def run_command(options: RunOptions, command: tuple[str, ...]) -> None:
    """Join a trainer with this node, and run its workers until the training is complete or the node must leave.

    SIGTERM, SIGINT and SIGUSR1 make the workers leave at the next step boundary; the exit status is then 0.
    Where the training is complete already it ends at once, with 0 as well.
    """
    logging.basicConfig(
        level=logging.INFO if options.verbose else logging.WARNING, format="freetrain: %(message)s"
    )
    root = options.root
    if root is None:
        root = Path(time.strftime("freetrain-trainer-%Y%m%d-%H%M%S"))
        click.echo(f"freetrain: trainer directory {root}", err=True)
    directory = TrainerDirectory.open(root)
    if directory.finished_path.exists():
        # So ends the rest of an array of which nobody could tell that it is complete.
        click.echo(f"freetrain: the training is complete; remove {directory.finished_path} to go on", err=True)
        return
    agent = _agent_options(options, command)
    if options.min_members is not None:
        os.environ["FREETRAIN_MIN_MEMBERS"] = str(options.min_members)
    progress = RestartProgress(directory.progress_path, _watched(options), options.samples_per_step)
    restart = options.restart
    with Signals((*_ALWAYS, *_extra(options.leave_on))) as signals:
        if options.adopt:
            ranks = options.ranks or max(2, agent.nproc)
            adopted = replace(agent, command=with_runner(command, _ADOPTING), ranks=ranks)
            restart, ending = _adopt(directory, adopted, signals)
        elif not restart:
            ending = Agent(directory, agent, signals).run()
        if restart:
            ending = RestartAgent(directory, agent, signals, Timeouts.from_environment(), progress).run()
    click.echo(f"freetrain: {ending.reason}", err=True)
    raise SystemExit(ending.status)


def _agent_options(options: RunOptions, command: tuple[str, ...]) -> AgentOptions:
    end_timeout_s = _end_timeout_s(options)
    if options.restarts and options.servers != 0:
        raise InputError(
            "--servers is not for --restart or --adopt.",
            "Leave it out, or let the script train with freetrain.elastic.",
        )
    if options.interface:
        use_interface(options.interface)
    if options.logs is not None:
        options.logs.mkdir(parents=True, exist_ok=True)
    nproc = options.nproc or count_gpus() or 1
    return AgentOptions(command, nproc, options.max_restarts, end_timeout_s, options.servers, options.logs)


def _adopt(directory: TrainerDirectory, options: AgentOptions, signals: Signals) -> tuple[bool, AgentEnd]:
    """Run a script adopted; whether it has to be restarted at every change instead, and how it ended otherwise."""
    reason = directory.why_not_adopted()
    ending = AgentEnd(NOT_ADOPTED_STATUS, reason) if reason else Agent(directory, options, signals).run()
    is_refused = ending.status == NOT_ADOPTED_STATUS
    if is_refused:
        click.echo(f"freetrain: the script is restarted at every change of size, since {ending.reason}.", err=True)
    return is_refused, ending


def _end_timeout_s(options: RunOptions) -> float:
    leave_timeout_s, save_timeout_s = options.leave_timeout_s, options.save_timeout_s
    if options.adopt:
        return max(leave_timeout_s or END_TIMEOUT_S, save_timeout_s or END_TIMEOUT_S)
    if options.restart and leave_timeout_s is not None:
        raise InputError(
            "--leave-timeout is not for --restart: its scripts know nothing of step boundaries.",
            "Give --save-timeout, the time from SIGTERM until they are killed.",
        )
    if not options.restart and save_timeout_s is not None:
        raise InputError(
            "--save-timeout is for --restart only.",
            "Give --leave-timeout to a script that uses freetrain.elastic.",
        )
    given_s = save_timeout_s if options.restart else leave_timeout_s
    return END_TIMEOUT_S if given_s is None else given_s


def _watched(options: RunOptions) -> WatchedSteps | None:
    if options.steps_path is None:
        return None
    if not options.restarts:
        raise InputError(
            "--steps-from is for --restart only.", "A script that uses freetrain.elastic tells its steps itself."
        )
    pattern = options.steps_pattern
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
    return WatchedSteps(options.steps_path.absolute(), compiled)


def _extra(name: str | None) -> tuple[signal.Signals, ...]:
    if name is None:
        return ()
    full = name.upper() if name.upper().startswith("SIG") else f"SIG{name.upper()}"
    if full not in signal.Signals.__members__ or full in ("SIGKILL", "SIGSTOP"):
        raise InputError(f"--leave-on {name}: no signal of that name can be handled.", "Try USR2 or SIGUSR2.")
    return (signal.Signals[full],)
