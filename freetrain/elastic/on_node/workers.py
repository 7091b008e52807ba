"""Parts of both kinds of agents: the user's options, the signals that ask to leave, and worker processes."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from freetrain.errors import InputError

END_TIMEOUT_S = 20.0
"""How long workers may take to end, if nothing else is asked for."""

_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True, slots=True)
class AgentOptions:
    """The user's options of an agent.

    Attributes:
        command: the training script with its arguments.
        nproc: workers on this node.
        max_restarts: failed workers to replace before giving up.
        end_timeout_s: how long workers may take to end before they are killed: to the next step boundary (the
            others then redo that step without them), or in restart mode to save.
        logs: folder for a file with each worker's output; None: all goes where the agent's goes.
        ranks: for which the script is run that is to be adopted; 0: it is none of these.
        servers: how many should add up the workers' gradients, on all nodes of the trainer together; None: as many
            as freetrain says, on the nodes that it names.
    """

    command: Sequence[str]
    nproc: int
    max_restarts: int = 3
    end_timeout_s: float = END_TIMEOUT_S
    servers: int | None = 0
    logs: Path | None = None
    ranks: int = 0


@dataclass(frozen=True, slots=True)
class AgentEnd:
    """How an agent ended: exit status and the reason in words."""

    status: int
    reason: str


class Signals:
    """Notes the signals that ask to leave; handlers set a flag and do nothing else."""

    def __init__(self, numbers: Iterable[signal.Signals]) -> None:
        self.received: str | None = None
        self._numbers = tuple(numbers)
        self._before: dict[signal.Signals, object] = {}

    def __enter__(self) -> Signals:
        """Listen."""
        for number in self._numbers:
            self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        """Listen no more."""
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]

    def _note(self, number: int, _frame: FrameType | None) -> None:
        self.received = signal.Signals(number).name


class Worker:
    """One process.

    Args:
        command: what to run.
        name: the member's id.
        index: its place on this node, which says which GPU it has.
        environment: what it needs to know.
        is_server: whether it adds up the gradients of workers.
        logs: folder for a file with its output; None: that goes where this process's goes.
        is_standby: whether it waits until it gets its environment.
    """

    def __init__(
        self,
        command: Sequence[str],
        name: str,
        index: int,
        environment: Mapping[str, str],
        *,
        is_server: bool = False,
        logs: Path | None = None,
        is_standby: bool = False,
    ) -> None:
        self.name = name
        self.index = index
        self.is_server = is_server
        self.asked_to_leave_s: float | None = None
        self.gone_since_s: float | None = None
        self.ends_with_replica = False
        self.started_s = time.monotonic()
        try:
            with contextlib.ExitStack() as stack:
                log = stack.enter_context((logs / f"{name}.log").open("ab")) if logs is not None else None
                self._process = subprocess.Popen(
                    list(command),
                    env={**os.environ, **environment},
                    stdin=subprocess.PIPE if is_standby else None,
                    stdout=log,
                    stderr=log,
                    # A process group of its own: a signal to it reaches all that the script has started.
                    start_new_session=True,
                    preexec_fn=_die_with_parent,
                )
        except OSError as error:
            raise InputError(
                f"cannot start {command[0]}: {error.strerror}.", "Look at what follows '--' on the command line."
            ) from error

    def begin(self, environment: Mapping[str, str]) -> bool:
        """Let a standby go on with this environment; False if it has ended."""
        assert self._process.stdin is not None
        try:
            with self._process.stdin as stream:
                stream.write(json.dumps(dict(environment)).encode() + b"\n")
        except OSError:
            return False
        return self.poll() is None

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    def poll(self) -> int | None:
        """The exit status, negative for a signal; None while it runs. Its children end with it.

        Forked children (of a data loader) would keep its connections open, and hide its end from the others.
        """
        status = self._process.poll()
        if status is not None:
            self._signal_all(signal.SIGKILL)
        return status

    def terminate(self) -> None:
        """Ask it to end. What it has started itself may be what it needs for that: it goes with it."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(self.pid, signal.SIGTERM)

    def kill(self) -> None:
        """End it, stopped or not."""
        self._signal_all(signal.SIGKILL)

    def _signal_all(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)


def _die_with_parent() -> None:
    """Called in the child: an agent that is killed must not leave workers behind."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def describe(status: int) -> str:
    """An exit status in words."""
    if status >= 0:
        return f"exit status {status}"
    try:
        return f"killed by {signal.Signals(-status).name}"
    except ValueError:
        return f"killed by signal {-status}"


def count_gpus() -> int:
    """GPUs that this node gives to us; asked of the driver's files, since the agent does without torch."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        return len([name for name in visible.split(",") if name.strip()])
    return len(list(Path("/dev").glob("nvidia[0-9]*")))
