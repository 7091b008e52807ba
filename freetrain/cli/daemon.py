"""``freetrain daemon``: lends the idle nodes of a Slurm."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import click

from freetrain.cli.config import check_command
from freetrain.cli.helping import command
from freetrain.cli.options import config_option, option, shared_option
from freetrain.config import Loaded, load_config
from freetrain.daemon.log_output import start_logging
from freetrain.daemon.service import Service
from freetrain.slurm.opening import open_gateway


@command("daemon")
def daemon_command(
    config_path: Path | None = shared_option(config_option),
    cycles: int | None = option("--cycles", "Look N times, then end.", type=click.IntRange(1), metavar="N"),
    check_config: bool = option("--check-config", "Do what 'freetrain config check' does, and end."),
    verbose: bool = option("-v --verbose", "Log with the level debug, whatever log.level says."),
) -> None:
    """Lend idle nodes to elastic trainings, as the configuration allows; by default only observe.

    SIGTERM ends the daemon and leaves what is lent to the trainings; SIGHUP reads the configuration again.
    """
    if check_config:
        click.get_current_context().invoke(check_command, config_path=config_path)
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
