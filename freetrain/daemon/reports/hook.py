"""Runs a command of the site's: without a shell, for a bounded time, and such that its failure hinders nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence

_MOST_SAID_BYTES = 300
_OUR_OWN = ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID")
"""What systemd tells the daemon is not for others."""


def run_hook(command: Sequence[str], text: str, variables: Mapping[str, str], timeout_s: float) -> str:
    """Run it, and all that it starts ends with it when the time is up.

    Args:
        command: as an argument list.
        text: that it gets on standard input.
        variables: more for its environment.
        timeout_s: how long it may take.

    Returns:
        What went wrong, as the end of a sentence; empty: nothing.
    """
    environment = {name: value for name, value in os.environ.items() if name not in _OUR_OWN} | dict(variables)
    with tempfile.TemporaryFile() as stderr_file:
        try:
            running = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=stderr_file,
                env=environment, cwd="/", start_new_session=True,
            )  # fmt: skip
        except (OSError, ValueError) as error:
            return f"{command[0]} cannot be run: {getattr(error, 'strerror', None) or error}"
        try:
            running.communicate(text.encode(), timeout=timeout_s)
        except subprocess.TimeoutExpired:
            os.killpg(running.pid, signal.SIGKILL)
            running.wait()
            return f"it was ended after {timeout_s:.0f} s"
        if running.returncode == 0:
            return ""
        stderr_file.seek(0)
        complaint = " ".join(stderr_file.read(_MOST_SAID_BYTES).decode(errors="replace").split())
        return f"it ended with status {running.returncode}" + (f": {complaint}" if complaint else "")
