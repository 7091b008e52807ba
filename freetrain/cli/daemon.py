"""``freetrain daemon``: lends the idle nodes of a Slurm."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import click

from freetrain.cli.config import check_command
from freetrain.cli.helping import command
from freetrain.cli.options import config_option
from freetrain.config import Loaded, load_config
from freetrain.daemon.log_output import start_logging
from freetrain.daemon.service import Service
from freetrain.slurm.opening import open_gateway


@command("daemon")
@config_option
@click.option("--cycles", type=click.IntRange(1), metavar="N", help="Look N times, then end.")
@click.option("--check-config", is_flag=True, help="Do what 'freetrain config check' does, and end.")
@click.option("-v", "--verbose", is_flag=True, help="Log with the level debug, whatever log.level says.")
@click.pass_context
def daemon_command(
    context: click.Context, config_path: Path | None, cycles: int | None, check_config: bool, verbose: bool
) -> None:
    """Lend idle nodes to elastic trainings, as the configuration allows; by default only observe.

    SIGTERM ends the daemon and leaves what is lent to the trainings; SIGHUP reads the configuration again.
    """
    if check_config:
        context.invoke(check_command, config_path=config_path)
        return

    def read() -> Loaded:
        loaded = load_config(config_path)
        log = loaded.config.log.model_copy(update={"level": "debug"})
        return replace(loaded, config=loaded.config.model_copy(update={"log": log})) if verbose else loaded

    loaded = read()
    config = loaded.config
    start_logging(config.log)
    gateway = open_gateway(config.slurm.backend, config.slurm.timeout, in_parts=config.lend.in_parts)
    Service(loaded, gateway, read).run(cycles)
