"""Parts of both kinds of agents: the user's options, the signals that ask to leave, and worker processes."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import select
import signal
import socket
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import FrameType

from freetrain.elastic.on_node import template
from freetrain.errors import explained

log = logging.getLogger(__name__)

END_TIMEOUT_S = 20.0
"""Seconds that workers may take to end, if nothing else is asked for."""

# How long a template may take to fork; a new process is started otherwise.
_FORK_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True)
class AgentOptions:
    """The user's options of an agent."""

    command: Sequence[str]  # the training script with its arguments
    nproc: int  # workers on this node
    max_restarts: int = 3  # failed workers to replace before giving up
    end_timeout_s: float = END_TIMEOUT_S  # to the next step boundary, or in restart mode to save; killed then
    servers: int | None = 0  # that add up gradients, on all nodes together; None: where freetrain says
    logs: Path | None = None  # for a file with each worker's output; None: all goes where the agent's goes
    ranks: int = 0  # for which a script is run that is to be adopted; 0: it is none of these

    def log_of(self, worker: str) -> Path | None:
        """The file for this worker's output; None: it goes where the agent's goes."""
        return self.logs / f"{worker}.log" if self.logs is not None else None


@dataclass(frozen=True, slots=True)
class AgentEnd:
    """End of an agent: exit status and the reason in words."""

    status: int
    reason: str


class Signals:
    """Notes the signals that ask to leave; handlers set a flag and do nothing else."""

    def __init__(self, numbers: Iterable[signal.Signals]) -> None:
        self.received: str | None = None
        self._numbers = tuple(numbers)
        self._before: dict[signal.Signals, object] = {}

    def __enter__(self) -> Signals:
        for number in self._numbers:
            self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]

    def _note(self, number: int, _frame: FrameType | None) -> None:
        self.received = signal.Signals(number).name


def start_process(
    command: Sequence[str], environment: Mapping[str, str], log: Path | None = None, pass_fds: Sequence[int] = ()
) -> subprocess.Popen[bytes]:
    """Start a process with more variables, in a session of its own: a signal reaches all that it has started."""
    hint = "Look at what follows '--' on the command line."
    with explained(f"cannot start {command[0]}", hint), contextlib.ExitStack() as stack:
        output = stack.enter_context(log.open("ab")) if log is not None else None
        return subprocess.Popen(
            list(command),
            env={**os.environ, **environment},
            stdout=output,
            stderr=output,
            start_new_session=True,
            # Only the child itself can ask the kernel to end it with its parent.
            preexec_fn=partial(template.die_with_parent, os.getpid()),
            pass_fds=pass_fds,
        )


class Worker:
    """One process with its place on the node, which says which GPU it has."""

    def __init__(
        self, process: subprocess.Popen[bytes] | ForkedProcess, name: str, index: int, *, is_server: bool = False
    ) -> None:
        self.name = name
        self.index = index
        self.is_server = is_server
        self.asked_to_leave_s: float | None = None
        self.given_up_s: float | None = None
        self.ends_with_replica = False
        self._process = process

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    def poll(self) -> int | None:
        """The exit status, negative for a signal; None while it runs. Its children end with it."""
        status = self._process.poll()
        if status is not None:
            # Forked children (of a data loader) would keep its connections open, and hide its end from the others.
            self.kill()
        return status

    def terminate(self) -> None:
        """Ask it to end."""
        # It alone: what it has started itself may be what it needs in order to save.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(self.pid, signal.SIGTERM)

    def kill(self) -> None:
        """End it, stopped or not, and all that it has started."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)


class Template:
    """A process that has imported what a script imports; the script's workers are forked from it."""

    def __init__(self, command: Sequence[str]) -> None:
        self.is_ready = False  # it has imported all, as of the last look
        self._started: list[int] = []
        self._statuses: dict[int, int] = {}
        # Packets keep their bounds: each is one document.
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            runner = template.with_runner(command, template.MODULE)
            environment = {template.SOCKET_VARIABLE: str(theirs.fileno())}
            self._process = start_process(runner, environment, pass_fds=[theirs.fileno()])

    @property
    def runs(self) -> bool:
        """Whether its process runs."""
        return self._process.poll() is None

    def look(self, timeout_s: float = 0.0) -> None:
        """Take note of its messages, waiting so long for a first one."""
        with contextlib.suppress(ConnectionError):  # it has ended
            while select.select([self._socket], [], [], timeout_s)[0]:
                packet = self._socket.recv(template.PACKET_BYTES)
                if not packet:
                    return
                self._note(json.loads(packet))
                timeout_s = 0.0

    def _note(self, message: Mapping[str, int | str]) -> None:
        match message:
            case {"ready": True}:
                self.is_ready = True
            case {"started": int(pid)}:
                self._started.append(pid)
            case {"ended": int(pid), "status": int(status)}:
                self._statuses[pid] = status
            case {"unusable": why}:
                log.info("each worker imports by itself, since %s", why)

    def fork(self, environment: Mapping[str, str], log: Path | None) -> ForkedProcess | None:
        """Start a worker as :func:`start_process` does; None if this is not possible."""
        request = {"environment": dict(environment), "log": None if log is None else str(log)}
        if not self.is_ready or not self.runs:
            return None
        until_s = time.monotonic() + _FORK_TIMEOUT_S
        with contextlib.suppress(OSError):
            self._socket.send(json.dumps(request).encode())
            while not self._started and self.runs and time.monotonic() < until_s:
                self.look(_FORK_TIMEOUT_S)
        if self._started:
            return ForkedProcess(self._started.pop(), self)
        self._process.kill()  # or it might fork one all the same, later
        return None

    def status_of(self, pid: int) -> int | None:
        """The exit status of a worker; None while it runs. Workers end with their template."""
        self.look()
        return self._statuses.get(pid, None if self.runs else -signal.SIGKILL)

    def end(self) -> None:
        """End it, with its workers."""
        self._process.kill()
        self._process.wait()


@dataclass(frozen=True, slots=True)
class ForkedProcess:
    """A process that was forked from a template, which reports how it ended."""

    pid: int
    template: Template

    def poll(self) -> int | None:
        """The exit status, negative for a signal; None while it runs."""
        return self.template.status_of(self.pid)


def describe(status: int) -> str:
    """An exit status in words."""
    if status >= 0:
        return f"exit status {status}"
    try:
        return f"killed by {signal.Signals(-status).name}"
    # Real-time signals have no names.
    except ValueError:
        return f"killed by signal {-status}"


def count_gpus() -> int:
    """GPUs that this node gives to us, by Slurm's list of them or else by the driver's files."""
    # Not by torch, without which the agent starts at once.
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        return len([name for name in visible.split(",") if name.strip()])
    return len(list(Path("/dev").glob("nvidia[0-9]*")))


def torchrun_variables(rank: int, world: int, local_rank: int, local_world: int, run_id: str) -> Mapping[str, str]:
    """Variables that torchrun sets for a worker where there is no other node; nobody listens at the address."""
    facts = {
        "RANK": rank,
        "WORLD_SIZE": world,
        "LOCAL_RANK": local_rank,
        "LOCAL_WORLD_SIZE": local_world,
        "GROUP_RANK": 0,
        "GROUP_WORLD_SIZE": 1,
        "ROLE_RANK": rank,
        "ROLE_WORLD_SIZE": world,
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": 29500,
        "TORCHELASTIC_RUN_ID": run_id,
        "TORCHELASTIC_RESTART_COUNT": 0,
    }
    return {name: str(value) for name, value in facts.items()}
