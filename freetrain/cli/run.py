"""``freetrain run``: the agent of a node, or of a laptop; ``freetrain poke``: lost and new workers, to try it."""

from __future__ import annotations

import logging
import os
import re
import signal
import time
import uuid
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import click

from freetrain.cli.helping import command
from freetrain.cli.options import argument, dry_run_option, option
from freetrain.elastic.errors import NOT_ADOPTED_STATUS
from freetrain.elastic.membership.identity import use_interface
from freetrain.elastic.on_disk.directory import TRAINER_VARIABLE, TrainerDirectory
from freetrain.elastic.on_node.agent import Agent
from freetrain.elastic.on_node.restart import LAST_NUMBER, RestartAgent, RestartProgress, WatchedSteps
from freetrain.elastic.on_node.template import with_runner
from freetrain.elastic.on_node.workers import END_TIMEOUT_S, AgentEnd, AgentOptions, Signals, count_gpus
from freetrain.elastic.timeouts import Timeouts
from freetrain.errors import InputError

_ADOPTING = "freetrain.elastic.adopting"
_ALWAYS = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1)


def _server_count(context: click.Context, parameter: click.Parameter, given: str) -> int | None:
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
def run_command(
    options: RunOptions,
    command: tuple[str, ...] = argument(nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- COMMAND…"),
) -> None:
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
    """Run a script adopted; whether it has to be restarted at every change instead, and the end of its run."""
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


_PATIENCE_S = 10.0
_workers = partial(option, type=click.IntRange(1), metavar="N")


@command("poke")
def poke_command(
    trainer: Path = argument(),
    lose: int | None = _workers("--lose", "Let N workers leave at the next step boundary."),
    grow: int | None = _workers("--grow", "Start N more workers."),
    kill: int | None = _workers("--kill", "Kill N workers without warning (SIGKILL)."),
    dry_run: bool = dry_run_option,
) -> None:
    """Make a running trainer lose, gain or suddenly miss workers.

    TRAINER is the directory given to 'freetrain run --trainer'. The workers that joined last go first.
    """
    if not (lose or grow or kill):
        raise InputError("nothing to do.", "Give at least one of --lose N, --grow N and --kill N.")
    directory = TrainerDirectory.existing(trainer)
    if not directory.view().current:
        raise InputError(
            f"no worker trains in {directory.root} just now.", "Start one with 'freetrain run --trainer DIR'."
        )
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


def _check_workers_are_independent(directory: TrainerDirectory) -> None:
    view = directory.view()
    shards = max((view.members[id_].shards for id_ in view.current), default=1)
    if shards > 1:
        raise InputError(
            f"the model is sharded over the {shards} workers of each node: one more cannot join alone.",
            f"Start another node: freetrain run --trainer {directory.root} --nproc {shards} -- COMMAND.",
        )


def _last_workers(directory: TrainerDirectory, count: int) -> tuple[str, ...]:
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
