"""The ``freetrain`` command: finds the sub-command, and turns errors into sentences and exit codes."""

from __future__ import annotations

import errno
import importlib
import os
import sys
from pathlib import Path
from typing import IO, Any

import click

from freetrain import __version__
from freetrain.errors import ExitCode, FreetrainError

_COMMANDS = {
    "audit": "freetrain.cli.audit:audit_command",
    "bench": "freetrain.cli.bench:bench_command",
    "cancel": "freetrain.cli.cancel:cancel_command",
    "completion": "freetrain.cli.completion:completion_command",
    "config": "freetrain.cli.config:config_group",
    "curve": "freetrain.cli.curve:curve_command",
    "daemon": "freetrain.cli.daemon:daemon_command",
    "db": "freetrain.cli.db:db_group",
    "drain": "freetrain.cli.drain:drain_command",
    "explain": "freetrain.cli.explain:explain_command",
    "health": "freetrain.cli.health:health_command",
    "history": "freetrain.cli.history:history_command",
    "holes": "freetrain.cli.nodes:holes_command",
    "jobs": "freetrain.cli.jobs:jobs_command",
    "lab": "freetrain.cli.lab:lab_group",
    "ledger": "freetrain.cli.ledger:ledger_command",
    "nodes": "freetrain.cli.nodes:nodes_command",
    "nudge": "freetrain.cli.nudge:nudge_command",
    "panic": "freetrain.cli.panic:panic_command",
    "pause": "freetrain.cli.pause:pause_command",
    "policies": "freetrain.cli.policies:policies_command",
    "poke": "freetrain.cli.poke:poke_command",
    "register": "freetrain.cli.register:register_command",
    "replay": "freetrain.cli.replay:replay_command",
    "resume": "freetrain.cli.resume:resume_command",
    "run": "freetrain.cli.run:run_command",
    "runs": "freetrain.cli.runs:runs_group",
    "solve": "freetrain.cli.solve:solve_command",
    "status": "freetrain.cli.status:status_command",
    "submit": "freetrain.cli.submit:submit_command",
    "sweep": "freetrain.cli.sweep:sweep_command",
    "top": "freetrain.cli.top:top_command",
    "undrain": "freetrain.cli.drain:undrain_command",
    "unregister": "freetrain.cli.unregister:unregister_command",
    "web": "freetrain.cli.web:web_command",
}


_DISK_FULL = (errno.ENOSPC, errno.EDQUOT)


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
        return sorted(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The sub-command of this name."""
        if cmd_name not in _COMMANDS:
            return None
        module, _, attribute = _COMMANDS[cmd_name].partition(":")
        command: click.Command = getattr(importlib.import_module(module), attribute)
        return command

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
            if isinstance(error, OSError) and error.errno in _DISK_FULL and not ctx.params["debug"]:
                raise Complaint(
                    f"what was to be written could not be: {error.strerror}.",
                    "Make room where it goes, and try again.",
                    ExitCode.STATE_IO,
                ) from error
            if ctx.params["debug"]:
                raise
            raise Complaint(
                f"this is a defect in freetrain, not in what you gave it: {type(error).__name__}: {error}",
                "Please report it, with what 'freetrain --debug …' prints.",
                ExitCode.FAILED,
            ) from error


@click.command(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="freetrain")
@click.option("--debug", is_flag=True, help="Show tracebacks.")
def cli(debug: bool) -> None:
    """Turn the idle node × time holes of a Slurm machine into deep-learning training."""


def main() -> None:
    """Entry point of the ``freetrain`` command."""
    _open_what_is_closed()
    cli()


def _open_what_is_closed() -> None:
    """Let standard streams that the caller has closed be empty ones: to Python they are None."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115 (kept to the end)


if __name__ == "__main__":
    main()
