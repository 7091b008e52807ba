"""Programs that a lab needs and runs, and which processes of this machine belong to it.

Pid files are not asked: they outlive daemons that were killed, and then name somebody else's process.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from freetrain.errors import ExitCode, FreetrainError
from freetrain.lab.layout import LabLayout

_TIMEOUT_S = 60.0
_STARTED_S = 180.0
SEARCH_PATH = ":".join(filter(None, (os.environ.get("PATH"), "/usr/local/sbin", "/usr/sbin", "/sbin")))
"""Search path of programs, with the folders of daemons, in which ordinary users do not look."""

_APT = "apt install slurm-wlm slurmdbd munge mariadb-server"
_ALWAYS = ("munged", "slurmctld", "slurmd", "scontrol", "sinfo", "scancel")
_FOR_ACCOUNTING = ("slurmdbd", "sacctmgr", "mariadbd", "mariadb-install-db")
_DAEMONS = {"munged", "mariadbd", "slurmdbd", "slurmctld", "slurmscriptd", "slurmd", "slurmstepd"}
_POLL_S = 0.05


def environment(layout: LabLayout) -> dict[str, str]:
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


def ask(layout: LabLayout, *command: str) -> subprocess.CompletedProcess[str]:
    """Run one of Slurm's commands, and keep its output; one that hangs has failed."""
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


def require(layout: LabLayout, *command: str) -> str:
    """The output of one of Slurm's commands; an error if it fails."""
    result = ask(layout, *command)
    if result.returncode != 0:
        raise FreetrainError(f"'{' '.join(command)}' failed: {_last_line(result.stdout + result.stderr)}")
    return result.stdout


def node_states(layout: LabLayout) -> dict[str, int]:
    """Number of nodes in each of Slurm's states; empty if the controller does not answer."""
    # Of one partition that has all nodes: sinfo counts a node once for each of its partitions.
    answer = ask(layout, "sinfo", "--noheader", "--partition=main", "--format=%T %D")
    states: Counter[str] = Counter()
    for line in answer.stdout.splitlines():
        state, count = line.split()
        states[state] += int(count)
    return dict(states)


class Launch:
    """A program that is being started; side by side with others if need be.

    Its title names it in error messages, and the file with what it prints; ``identity`` is for subprocess.Popen.
    """

    def __init__(
        self, layout: LabLayout, title: str, command: Sequence[str], identity: Mapping[str, Any] | None = None
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
                # Ctrl-C in the terminal must not reach the daemons.
                start_new_session=True,
                **(identity or {}),
            )

    def finish(self, log: str) -> None:
        """Wait until the program has ended or gone to the background; complain if it failed."""
        try:
            status = self._process.wait(_STARTED_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            status = -1
        if status != 0:
            raise failed(self._title, log, _last_line(self._output.read_text(errors="replace")))


def failed(program: str, log: str, why: str = "") -> FreetrainError:
    """The error of a daemon that does not start."""
    reason = f": {why}" if why else "."
    return FreetrainError(f"{program} did not start{reason}", f"Its log is {log}.", ExitCode.UNREACHABLE)


def _last_line(text: str) -> str:
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "")


def require_programs(accounting: bool) -> None:
    """Complain where a program is missing that a lab needs."""
    wanted = (*_ALWAYS, *(_FOR_ACCOUNTING if accounting else ()))
    missing = [program for program in wanted if shutil.which(program, path=SEARCH_PATH) is None]
    if missing:
        raise FreetrainError(
            f"A lab needs programs that are not installed here: {', '.join(missing)}.",
            f"On Debian and Ubuntu: {_APT}",
            ExitCode.CONFIGURATION,
        )


def slurm_version() -> tuple[int, int]:
    """Year and month of the Slurm that comes first in the search path, as (22, 5)."""
    program = shutil.which("slurmctld", path=SEARCH_PATH) or "slurmctld"
    output = subprocess.run([program, "-V"], capture_output=True, text=True, check=False).stdout
    found = re.search(r"(\d+)\.(\d+)", output)
    if found is None:
        raise FreetrainError(f"'{program} -V' does not say which Slurm it is: {output.strip()!r}.")
    return int(found[1]), int(found[2])


@dataclass(frozen=True)
class Process:
    """A process of a lab; ``node`` is empty for what is no slurmd, slurmstepd or task."""

    pid: int
    parent: int
    name: str
    node: str


def daemon_processes(root: Path) -> list[Process]:
    """The daemons of the lab in a directory, slurmstepds among them."""
    return [process for pid in _pids() if (process := _daemon(pid, root)) is not None]


def task_processes(root: Path, node: str | None, steps: Collection[int]) -> list[Process]:
    """The processes of the jobs on a node, or on all.

    They are what the slurmstepds started, and what daemonised itself away from them.
    """
    parents = {pid: parent for pid in _pids() if (parent := _parent(pid)) is not None}
    found = [pid for pid in parents if _descends(pid, steps, parents) or _says_it_runs_on(pid, root, node)]
    return [Process(pid, parents[pid], "task", node or "") for pid in found if pid != os.getpid()]


def send_signal(processes: Collection[Process], number: signal.Signals) -> None:
    """Send a signal to those that are still there."""
    for process in processes:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, number)


def are_gone(processes: Collection[Process]) -> bool:
    """Whether all have ended; only they are looked at: all processes of the machine would take far longer."""
    return all(_parent(process.pid) is None for process in processes)


def wait_until(fine: Callable[[], bool], seconds: float) -> bool:
    """Wait at most so long for something to be so; whether it is."""
    deadline = time.monotonic() + seconds
    while not fine():
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_S)
    return True


def _daemon(pid: int, root: Path) -> Process | None:
    try:
        # Of hundreds of processes most are somebody else's, and a Path costs several times what reading does.
        with open(f"/proc/{pid}/comm") as comm:  # noqa: PTH123
            name = comm.read().strip()
        here = Path(f"/proc/{pid}")
        if name not in _DAEMONS or (parent := _parent(pid)) is None:
            return None
        arguments = os.fsdecode((here / "cmdline").read_bytes()).split("\0")
        directory = (here / "cwd").readlink()
    except OSError:
        return None
    # Whole paths, not their beginnings: another lab may lie within this one's directory.
    files = {str(root / file) for file in ("slurm.conf", "munge/munge.socket", "database")}
    named = {argument.partition("=")[2] or argument for argument in arguments}
    on_a_node = directory.parent == root / "nodes"
    if not (on_a_node or directory == root / "log" or files & named):
        return None
    return Process(pid, parent, name, directory.name if on_a_node else "")


def _pids() -> Iterator[int]:
    return (int(entry.name) for entry in os.scandir("/proc") if entry.name.isdigit())


def _parent(pid: int) -> int | None:
    """Number of the parent; None for what is gone, or has ended and waits for its parent to notice."""
    try:
        # The program's name stands in parentheses, and may hold anything, parentheses too.
        state, parent = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[:2]
    except OSError:
        return None
    return None if state in "ZX" else int(parent)


def _descends(pid: int, ancestors: Collection[int], parents: dict[int, int]) -> bool:
    while (parent := parents.get(pid)) is not None:
        if parent in ancestors:
            return True
        pid = parent
    return False


def _says_it_runs_on(pid: int, root: Path, node: str | None) -> bool:
    try:
        environment = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return False
    # A process that has daemonised itself has no ancestor here, but still the environment of its job.
    if f"SLURM_CONF={root}/slurm.conf".encode() not in environment:
        return False
    if node is None:
        return any(setting.startswith(b"SLURMD_NODENAME=") for setting in environment)
    return f"SLURMD_NODENAME={node}".encode() in environment


def is_free(port: int) -> bool:
    """Whether nobody listens on a port."""
    with socket.socket() as listener:
        # As Slurm's daemons do: connections of an earlier lab that linger are no obstacle.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("", port))
        except OSError:
            return False
    return True


def listens(port: int) -> bool:
    """Whether somebody listens on a port of the loopback address."""
    with socket.socket() as client:
        client.settimeout(1.0)
        return client.connect_ex(("127.0.0.1", port)) == 0
