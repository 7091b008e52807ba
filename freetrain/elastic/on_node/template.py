"""A process that has imported what a script imports, and from which the script's workers are forked.

``python -m freetrain.elastic.on_node.template [-m MODULE | FILE] …`` imports, then speaks with its agent over a
socket, in one JSON document a packet:

- the template to the agent, once: ``{"ready": true}``, or ``{"unusable": why}`` at its end;
- the agent to the template: ``{"environment": …, "log": path or null}``, answered by ``{"started": pid}``;
- the template to the agent, when a worker has ended: ``{"ended": pid, "status": exit status}``.

So a change of size in restart mode starts no Python and waits for no import.
"""

from __future__ import annotations

import ast
import contextlib
import ctypes
import gc
import importlib
import importlib.util
import json
import os
import runpy
import select
import signal
import socket
import sys
import sysconfig
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from freetrain.errors import InputError

MODULE = "freetrain.elastic.on_node.template"
SOCKET_VARIABLE = "FREETRAIN_TEMPLATE_SOCKET"
"""Environment variable with the number of the socket to the agent."""

PACKET_BYTES = 65_536
# Between two looks whether a worker has ended: as often as the agent itself looks.
_LOOK_S = 0.02
# From linux/prctl.h.
_PR_SET_PDEATHSIG = 1
# Loaded here, as it is called between fork and exec, where a lock of the loader's may be held for ever.
_LIBC = ctypes.CDLL(None, use_errno=True)

# What a package imports when it is first used: torch's first optimizer takes a second for it.
_LATER = {"torch": ("torch._dynamo", "torch.distributed.algorithms.ddp_comm_hooks")}
# Lets torch.cuda.is_available() ask the driver without starting CUDA, which no forked process could then use.
_NVML_VARIABLE = "PYTORCH_NVML_BASED_CUDA_CHECK"


def with_runner(command: Sequence[str], runner: str) -> list[str]:
    """The command with a module before the script, which runs that; raises InputError if no script is seen."""
    place = next((place for place, word in enumerate(command) if place and (word == "-m" or word[:1] != "-")), 0)
    if not Path(command[0]).name.startswith("python") or not place or "-c" in command[:place]:
        raise InputError(
            f"there is no script to be seen in '{' '.join(command[:2])}'.",
            "Give the script itself: freetrain run … -- python train.py …",
        )
    return [*command[:place], "-m", runner, *command[place:]]


def run_script(arguments: Sequence[str]) -> None:
    """Run a script, or a module, with its arguments, as Python would."""
    is_module = arguments[0] == "-m"
    sys.argv = list(arguments[is_module:])
    if is_module:
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
        return
    sys.path[0] = os.fspath(Path(arguments[0]).resolve().parent)
    runpy.run_path(arguments[0], run_name="__main__")


# -- imports


def preload(arguments: Sequence[str]) -> None:
    """Import what the script does, as far as it is installed: modules of its own may look at the environment."""
    is_module = arguments[0] == "-m"
    folder = Path.cwd() if is_module else Path(arguments[0]).parent
    script = own_file(arguments[1], folder) if is_module else Path(arguments[0])
    for module, names in imported_by(script, folder) if script is not None else ():
        with contextlib.suppress(Exception):
            if is_installed(module):
                _import(module, names)


def _import(module: str, names: Sequence[str]) -> None:
    package = importlib.import_module(module)
    for name in names:
        with contextlib.suppress(Exception):
            # Packages with lazy parts, as transformers, import them here.
            if not hasattr(package, name):
                importlib.import_module(f"{module}.{name}")
    for later in _LATER.get(module, ()):
        with contextlib.suppress(ImportError):
            importlib.import_module(later)


def is_installed(module: str) -> bool:
    """Whether it is not one of the user's own."""
    spec = importlib.util.find_spec(module.partition(".")[0])
    origin = Path(spec.origin) if spec is not None and spec.origin else Path()
    # This package, which may be installed editable, from a folder of the user's.
    own = Path(__file__).parents[2]
    return (
        not {"site-packages", "dist-packages"}.isdisjoint(origin.parts)
        or origin.is_relative_to(sysconfig.get_path("stdlib"))
        or origin.is_relative_to(own)
    )


def imported_by(path: Path, folder: Path) -> Iterator[tuple[str, Sequence[str]]]:
    """The modules that a file, and those of its own folder, import at their top, with the names that they take."""
    seen: set[Path] = set()
    files = [path]
    while files:
        file = files.pop()
        if file in seen:
            continue
        seen.add(file)
        for module, names in _imports_at_top(file):
            own = own_file(module, folder)
            if own is None:
                yield module, names
            else:
                files.append(own)


def _imports_at_top(path: Path) -> Iterator[tuple[str, Sequence[str]]]:
    """Modules that a file imports at its top, each with the names taken from it; none if it cannot be read."""
    with contextlib.suppress(OSError, SyntaxError, ValueError):
        for statement in ast.parse(path.read_bytes()).body:
            if isinstance(statement, ast.Import):
                yield from ((alias.name, ()) for alias in statement.names)
            elif isinstance(statement, ast.ImportFrom) and statement.module and not statement.level:
                yield statement.module, tuple(alias.name for alias in statement.names)


def own_file(module: str, folder: Path) -> Path | None:
    """The module's file, if it is in the script's folder or below."""
    base = folder.joinpath(*module.split("."))
    files = (base.with_suffix(".py"), base / "__main__.py", base / "__init__.py")
    return next((file for file in files if file.is_file()), None)


# -- workers


def main() -> None:
    """Get ready, fork workers, and be the script in each of these."""
    arguments = sys.argv[1:]
    agent = socket.socket(fileno=int(os.environ.pop(SOCKET_VARIABLE)))
    os.environ.setdefault(_NVML_VARIABLE, "1")
    preload(arguments)
    if why := why_not_forked():
        send(agent, {"unusable": why})
        return
    # Else each worker would copy all memory that the collector looks through, when it ends at the latest.
    gc.freeze()
    send(agent, {"ready": True})
    request = serve(agent)
    if request is not None:
        become_worker(request)
        run_script(arguments)


def why_not_forked() -> str | None:
    """Reason why processes forked from this one might not work; None: they do."""
    others = [thread.name for thread in threading.enumerate() if thread is not threading.main_thread()]
    if others:
        return f"an import started the thread {others[0]}"
    torch = sys.modules.get("torch")
    return "an import started CUDA" if torch is not None and torch.cuda.is_initialized() else None


def serve(agent: socket.socket) -> dict[str, Any] | None:
    """Fork workers, and report those that end; returns the request in a worker, None where the agent has ended."""
    while True:
        is_asked = bool(select.select([agent.fileno()], [], [], _LOOK_S)[0])
        with contextlib.suppress(ChildProcessError):  # there are no workers
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                send(agent, {"ended": ended[0], "status": os.waitstatus_to_exitcode(ended[1])})
        packet = agent.recv(PACKET_BYTES) if is_asked else b""
        if packet:
            template, pid = os.getpid(), os.fork()
            if pid == 0:
                die_with_parent(template)
                # A copy of the socket would hide the template's end from the agent.
                os.close(agent.detach())
                return dict(json.loads(packet))
            send(agent, {"started": pid})
        elif is_asked:
            return None


def become_worker(request: Mapping[str, Any]) -> None:
    """Be as a process that the agent itself has started."""
    os.setsid()
    if request["log"] is not None:
        log = os.open(request["log"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.close(log)
    os.environ.update(request["environment"])
    # Python's own random numbers are seeded again in each forked process, NumPy's are not.
    if (numpy := sys.modules.get("numpy")) is not None:
        numpy.random.seed()


def die_with_parent(parent: int) -> None:
    """Have this process killed when its parent ends: an agent that is killed must not leave workers behind."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it had ended before the kernel knew
        os.kill(os.getpid(), signal.SIGKILL)


def send(agent: socket.socket, message: Mapping[str, object]) -> None:
    """Send the agent a message, if it is still there."""
    with contextlib.suppress(OSError):
        agent.send(json.dumps(message).encode())


if __name__ == "__main__":
    main()
