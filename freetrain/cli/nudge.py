"""``freetrain nudge``: makes the daemon look at the cluster now."""

from __future__ import annotations

from pathlib import Path

from freetrain.cli.helping import command
from freetrain.cli.options import config_option
from freetrain.config import load_config
from freetrain.daemon.controls.nudge import send_nudge


@command("nudge")
@config_option
def nudge_command(config_path: Path | None) -> None:
    """Make the daemon on this machine look at the cluster at once; for scripts."""
    send_nudge(Path(load_config(config_path).config.state.directory))
