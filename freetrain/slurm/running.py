"""How Slurm's commands are run: on this machine, unless somebody knows another way."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from typing import Protocol

from freetrain.slurm.commands import Command


class Run(Protocol):
    """A way to run a command."""

    def __call__(
        self, command: Command, stdin: str, timeout_s: float, environment: Mapping[str, str]
    ) -> subprocess.CompletedProcess[str]:
        """What it printed, and how it ended.

        Args:
            command: as an argument list.
            stdin: what it reads.
            timeout_s: how long it may take.
            environment: added to what it has anyway.

        Raises:
            FileNotFoundError: there is no such command.
            subprocess.TimeoutExpired: it took longer.
            OSError: this machine cannot start it now, as where memory or processes are used up.
        """


def run_here(
    command: Command, stdin: str, timeout_s: float, environment: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    """Run it on this machine: see :class:`Run`."""
    return subprocess.run(
        command, input=stdin, capture_output=True, text=True, errors="replace", timeout=timeout_s,
        env={**os.environ, **environment}, check=False,
    )  # fmt: skip
