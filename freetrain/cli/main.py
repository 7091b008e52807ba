"""The ``freetrain`` command: finds the sub-command, and turns errors into sentences and exit codes."""

from __future__ import annotations

import errno
import gc
import importlib
import os
import sys
from pathlib import Path
from typing import IO, Any

import click

from freetrain import __version__
from freetrain.errors import ExitCode, FreetrainError

_SECTIONS = {
    "For users": {
        "submit": "hand a training, or an array of ordinary programs, to freetrain",
        "jobs": "list the trainings, and how they are getting on",
        "explain": "why a training has so many nodes, or why a node is lent or not",
        "cancel": "end a training for good",
        "resume": "let a paused training go on; or end the site's pause",
        "register": "hand a job that waits in Slurm already to freetrain",
        "unregister": "take a job back from freetrain",
        "freeze": "run a filler's task that cannot save itself under the site's freezer",
    },
    "For admins": {
        "config": "begin, check, show or compare the configuration",
        "status": "whether a daemon is at work, and how much it lends",
        "health": "the same in one line, for a monitoring system",
        "top": "the daemon, the nodes and the trainings, again and again",
        "nodes": "which nodes are lent or may be, until when, and why not the others",
        "history": "which node was lent to which training, and how that ended",
        "audit": "orders to Slurm, with their reasons",
        "ledger": "node-hours that were lent, by month, account, user or training",
        "drain": "take nodes back, and lend them to no training",
        "undrain": "lend drained nodes again",
        "pause": "lend nothing more for a while",
        "panic": "take everything back at once; needs no daemon",
    },
    "Replay": {
        "replay": "what the idle nodes in a scheduler's log would have trained",
        "sweep": "many replays: policies, costs, horizons",
        "runs": "list, show and compare recorded replays",
        "policies": "list the policies, placers and finishers",
        "solve": "solve single decision problems",
    },
    "Elastic training": {
        "run": "join a training with this node, and run its workers",
        "curve": "a training's throughput by number of nodes",
        "poke": "make a running training lose or gain workers",
    },
    "Lab and service": {
        "lab": "a real Slurm on this machine, to try freetrain in",
        "daemon": "lend idle nodes as the configuration allows",
        "web": "the machine in a browser, and its metrics",
        "nudge": "make the daemon look at once",
        "db": "check, copy and upgrade the daemon's database",
        "completion": "let a shell complete commands and options",
    },
}
# Commands that are an option of another today: scripts may use them still.
_FORMER = ("holes",)
_MODULES = {
    **dict.fromkeys(("cancel", "drain", "nudge", "panic", "pause", "resume", "undrain"), "orders"),
    **dict.fromkeys(("register", "unregister"), "submit"),
    **dict.fromkeys(("audit", "history"), "ledger"),
    "solve": "policies",
    "completion": "helping",
    **dict.fromkeys(("explain", "top"), "jobs"),
    "health": "status",
    "holes": "nodes",
    "poke": "run",
}
"""Command → the module that has it, where it has not one of its own."""


_DISK_FULL = (errno.ENOSPC, errno.EDQUOT)
_SHORTAGES = (errno.ENOMEM, errno.EAGAIN, errno.EMFILE, errno.ENFILE)


class Complaint(click.ClickException):
    """An error as the user gets to see it: what happened, what to do."""

    def __init__(self, what: str, hint: str, exit_code: int) -> None:
        super().__init__(what)
        self.hint = hint
        setattr(self, "exit_code", exit_code)  # noqa: B010 (click declares it for the class)

    def show(self, file: IO[Any] | None = None) -> None:
        """Print it to standard error."""
        click.echo(f"freetrain: {self.message}", err=True)
        if self.hint:
            click.echo(f"  {self.hint}", err=True)


class LazyGroup(click.Group):
    """Imports a sub-command only when it is wanted, and lets no traceback through unless asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names of all sub-commands."""
        return sorted([*_FORMER, *(name for section in _SECTIONS.values() for name in section)])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The sub-command of this name."""
        if cmd_name not in self.list_commands(ctx):
            return None
        # What is imported stays: to look through it for rubbish, again and again, takes a sixth of the start.
        gc.disable()
        module = importlib.import_module(f"freetrain.cli.{_MODULES.get(cmd_name, cmd_name)}")
        gc.freeze()
        gc.enable()
        found: click.Command = getattr(module, f"{cmd_name}_command", None) or getattr(module, f"{cmd_name}_group")
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the sub-commands in groups; none of them is imported for that."""
        for title, section in _SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl(list(section.items()))

    def invoke(self, ctx: click.Context) -> Any:
        """Run the sub-command."""
        try:
            return super().invoke(ctx)
        except FreetrainError as error:
            if ctx.params["debug"]:
                raise
            raise Complaint(error.what, error.hint, error.exit_code) from error
        except (click.ClickException, click.exceptions.Exit, click.Abort, BrokenPipeError):
            raise
        except Exception as error:
            if ctx.params["debug"]:
                raise
            raise _complaint_of(error) from error


def _complaint_of(error: Exception) -> Complaint:
    """Complaint about an unexpected error: this machine lacks something, or freetrain has a defect."""
    number = errno.ENOMEM if isinstance(error, MemoryError) else getattr(error, "errno", None)
    if number in _DISK_FULL:
        return Complaint(
            f"what was to be written could not be: {os.strerror(number)}.",
            "Make room where it goes, and try again.",
            ExitCode.STATE_IO,
        )
    if number in _SHORTAGES:
        return Complaint(
            f"this machine lacks what freetrain needs: {os.strerror(number)}.",
            "See what uses it up, or which limit (ulimit, MemoryMax=, TasksMax=) is too low, and try again.",
            ExitCode.TRY_AGAIN,
        )
    return Complaint(
        f"this is a defect in freetrain, not in what you gave it: {type(error).__name__}: {error}",
        "Please report it, with what 'freetrain --debug …' prints.",
        ExitCode.FAILED,
    )


@click.group(
    cls=LazyGroup,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100, "show_default": True},
)
@click.version_option(__version__, prog_name="freetrain")
@click.option("--debug", is_flag=True, help="Show tracebacks.")
@click.pass_context
def cli(context: click.Context, debug: bool) -> None:
    """Turn the idle node × time holes of a Slurm machine into deep-learning training.

    Without a command: where you stand, and what the next step is.
    """
    if context.invoked_subcommand is None:
        # Here, since the other commands have no need of it.
        from freetrain.cli.status import print_where_you_stand

        print_where_you_stand()


def main() -> None:
    """Entry point of the ``freetrain`` command."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        # A stream that the caller has closed is None to Python, and printing to it would raise.
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115 (kept to the end)
    cli()


if __name__ == "__main__":
    main()
