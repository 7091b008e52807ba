"""``freetrain daemon``: lends the idle nodes of a Slurm."""

from __future__ import annotations

import logging
import os
import sys
from pathlib import Path

import click

from freetrain.cli.options import config_option
from freetrain.config import load_config
from freetrain.daemon.service import Service
from freetrain.slurm.opening import open_gateway

_LEVELS = {logging.DEBUG: 7, logging.INFO: 6, logging.WARNING: 4, logging.ERROR: 3, logging.CRITICAL: 2}


class _JournalFormatter(logging.Formatter):
    """Puts the priority that journald understands before each line."""

    def format(self, record: logging.LogRecord) -> str:
        return f"<{_LEVELS.get(record.levelno, 6)}>{super().format(record)}"


@click.command("daemon")
@config_option
@click.option("--cycles", type=click.IntRange(1), metavar="N", help="Look N times, then end.")
@click.option("-v", "--verbose", is_flag=True, help="Say more.")
def daemon_command(config_path: Path | None, cycles: int | None, verbose: bool) -> None:
    """Lend idle nodes to elastic trainings, as the configuration allows; by default only observe.

    SIGTERM ends the daemon and leaves what is lent to the trainings; SIGHUP reads the configuration anew.
    """
    _log_to_stderr(verbose)
    loaded = load_config(config_path)
    slurm, in_parts = loaded.config.slurm, loaded.config.lend.in_parts
    gateway = open_gateway(slurm.backend, slurm.timeout, in_parts=in_parts)
    Service(loaded.config, gateway, lambda: load_config(config_path).config).run(cycles)


def _log_to_stderr(verbose: bool) -> None:
    handler = logging.StreamHandler(sys.stderr)
    in_journal = "JOURNAL_STREAM" in os.environ
    formatter = _JournalFormatter("%(message)s") if in_journal else logging.Formatter("%(asctime)s %(message)s")
    handler.setFormatter(formatter)
    logging.basicConfig(level=logging.DEBUG if verbose else logging.INFO, handlers=[handler])
    for chatty in ("apscheduler", "alembic"):
        logging.getLogger(chatty).setLevel(logging.WARNING)
