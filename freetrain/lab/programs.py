"""Programs run for a lab: Slurm's commands, and daemons that go to the background by themselves."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from freetrain.errors import ExitCode, FreetrainError
from freetrain.lab.layout import Layout
from freetrain.lab.packages import SEARCH_PATH

_TIMEOUT_S = 60.0
_STARTED_S = 180.0


def environment(layout: Layout) -> dict[str, str]:
    """The environment of a lab's programs: nothing of a job, or of another Slurm, that this runs in."""
    inherited = {
        name: value for name, value in os.environ.items() if not name.startswith(("SLURM", "SBATCH_", "SALLOC_"))
    }
    return inherited | {
        "PATH": SEARCH_PATH,
        "LC_ALL": "C",
        "SLURM_CONF": str(layout.slurm_conf),
        # slurmdbd has no setting for it: the client's library reads it.
        "MYSQL_UNIX_PORT": str(layout.database_socket),
    }


def ask(layout: Layout, *command: str) -> subprocess.CompletedProcess[str]:
    """Run one of Slurm's commands, and keep what it says; one that hangs has failed."""
    try:
        return subprocess.run(
            command,
            env=environment(layout),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, 1, "", f"no answer within {_TIMEOUT_S:g} s")


def require(layout: Layout, *command: str) -> str:
    """What one of Slurm's commands says; complain if it fails."""
    result = ask(layout, *command)
    if result.returncode != 0:
        raise FreetrainError(f"'{' '.join(command)}' failed: {_last_line(result.stdout + result.stderr)}")
    return result.stdout


def node_states(layout: Layout) -> dict[str, int]:
    """Number of nodes in each of Slurm's states; empty if the controller does not answer."""
    answer = ask(layout, "sinfo", "--noheader", "--partition=main", "--format=%T %D")
    states: Counter[str] = Counter()
    for line in answer.stdout.splitlines():
        state, count = line.split()
        states[state] += int(count)
    return dict(states)


def cancel_jobs(layout: Layout) -> None:
    """Cancel all jobs, as far as the controller answers."""
    for partition in ("main", "freetrain"):
        ask(layout, "scancel", f"--partition={partition}")


class Launch:
    """A program that is being started; side by side with others if need be.

    Args:
        layout: where the lab's files lie.
        title: its name in error messages, and of the file with what it prints.
        command: the program and its arguments.
        identity: arguments of subprocess.Popen that say who it runs as.
    """

    def __init__(
        self, layout: Layout, title: str, command: Sequence[str], identity: Mapping[str, Any] | None = None
    ) -> None:
        self._title = title
        # A daemon may keep what it was started with open for ever: so this is a file, not a pipe.
        self._output = layout.log / f"{title}.start"
        with self._output.open("wb") as output:
            self._process = subprocess.Popen(
                [shutil.which(command[0], path=SEARCH_PATH) or command[0], *command[1:]],
                env=environment(layout),
                cwd=layout.log,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                **(identity or {}),
            )

    def finish(self, log: str) -> None:
        """Wait until the program has ended or gone to the background; complain if it failed.

        Args:
            log: the log that says more.
        """
        try:
            status = self._process.wait(_STARTED_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            status = -1
        if status != 0:
            raise failed(self._title, _last_line(self._output.read_text(errors="replace")), log)


def failed(program: str, why: str, log: str) -> FreetrainError:
    """The error of a daemon that does not start."""
    reason = f": {why}" if why else "."
    return FreetrainError(f"{program} did not start{reason}", f"Its log is {log}.", ExitCode.UNREACHABLE)


def _last_line(text: str) -> str:
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "")
