"""The agent of a frozen task: a filler's program that cannot save itself, and is saved by a freezer of the site's.

1. :meth:`FrozenTask.run` launches the program under the site's freezer, or thaws what was last saved of it.
2. On SIGTERM the freezer saves it, within the grace time, into a directory of this run. The agent then ends with
   75, and Slurm runs the task again on another node.
3. A save that fails or is late is a loss: the filler's progress says so, where the daemon reads it. The task goes
   on from the save before it, or begins again.

Slurm sends SIGTERM to each process of a step, which would end the program, or a freezer's helper, before anything
was saved. So the agent, and by inheritance all that it starts, ignores and blocks it.
"""

from __future__ import annotations

import logging
import shutil
import signal
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from freetrain.elastic.on_disk.files import make_folder, read_json, write_json
from freetrain.elastic.on_disk.progress import ProgressWriter
from freetrain.elastic.on_node.workers import Worker, start_process
from freetrain.errors import ExitCode

log = logging.getLogger(__name__)

_POLL_S = 0.1
_STATE = "state.json"
PROGRESS = "progress.jsonl"


@dataclass(frozen=True, slots=True)
class Freezer:
    """Three lines for ``sh -c``; ``$FREEZE_DIR`` is the directory of this run."""

    launch: str  # starts the program, which is ``"$@"``
    save: str  # saves the program, process ``$FREEZE_PID``, into the directory, and may end it
    thaw: str  # lets the program go on that was saved in $FREEZE_IMAGE; its next save goes to $FREEZE_DIR
    within_s: float  # how long a save may take


@dataclass(frozen=True, slots=True)
class _FreezeState:
    """State that one run of a task leaves to the next."""

    run: int = 0  # its number, which names its directory
    image: int = 0  # the run whose directory has the newest save; 0: there is none
    began_s: float = 0.0  # when it began, UTC epoch seconds
    saving: bool = False  # whether it was saving


class FrozenTask:
    """One task of a filler, from node to node, of one name in the filler's directory, which all nodes share."""

    def __init__(self, freezer: Freezer, root: Path, name: str) -> None:
        self._freezer = freezer
        self._folder = root / name
        self._progress = ProgressWriter(root / PROGRESS)
        self._state = _FreezeState()

    def run(self, command: Sequence[str]) -> int:
        """The exit status: the program's own; 75 where it goes on elsewhere."""
        # Blocked, against handlers (of DMTCP's coordinator), and ignored, as dash unblocks all signals. Linux
        # keeps a signal that is blocked for sigtimedwait() although it is ignored.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
        make_folder(self._folder)
        before = _FreezeState(**(read_json(self._folder / _STATE) or {}))
        if before.saving:
            self._lose(before, "the save was cut off")
        self._note(replace(before, run=before.run + 1, began_s=time.time(), saving=False))
        make_folder(self._path(self._state.run))
        line = self._freezer.thaw if self._state.image else self._freezer.launch
        log.info("run %d of this task begins: %s", self._state.run, line)
        program = self._start(line, "program", *command)
        while (status := program.poll()) is None:
            if signal.sigtimedwait({signal.SIGTERM}, _POLL_S):
                return self._leave(program)
        return self._end(status)

    def _leave(self, program: Worker) -> int:
        """Save the program, and end it; one that ends well of itself meanwhile is complete."""
        # Written first: Slurm may kill all of it at any moment, and the next run has to know.
        self._note(replace(self._state, saving=True))
        problem = self._save(program)
        status = program.poll()
        program.kill()
        if problem and status == 0:
            return self._end(status)
        if problem:
            self._lose(self._state, problem)
            self._note(replace(self._state, saving=False))
            return ExitCode.TRY_AGAIN
        old = self._state.image
        self._note(replace(self._state, image=self._state.run, saving=False))
        # Only now: until the state names the new save the old one is all that there is.
        if old:
            shutil.rmtree(self._path(old), ignore_errors=True)
        return ExitCode.TRY_AGAIN

    def _save(self, program: Worker) -> str:
        """Save the program; returns the error in a few words, empty if it is saved."""
        until_s = time.monotonic() + self._freezer.within_s
        saving = self._start(self._freezer.save, "save", pid=program.pid)
        while (status := saving.poll()) is None:
            if time.monotonic() > until_s:
                saving.kill()
                return "the save was late"
            time.sleep(_POLL_S)
        return "the save failed" if status else ""

    def _start(self, line: str, name: str, *command: str, pid: int = 0) -> Worker:
        variables = {
            "FREEZE_DIR": str(self._path(self._state.run)),
            "FREEZE_IMAGE": str(self._path(self._state.image)) if self._state.image else "",
            "FREEZE_PID": str(pid or ""),
        }
        return Worker(start_process(("sh", "-c", line, name, *command), variables), name, 0)

    def _end(self, status: int) -> int:
        """The status as a shell has it. Of a program that failed its saves stay, so that it can be looked into."""
        if status == 0:
            shutil.rmtree(self._folder, ignore_errors=True)
        return 128 - status if status < 0 else status

    def _lose(self, run: _FreezeState, cause: str) -> None:
        # Nodes' clocks differ, and the daemon believes only what is above 0.
        elapsed_s = max(time.time() - run.began_s, 0.001)
        log.warning("%s: %.0f s of work are lost", cause, elapsed_s)
        self._progress.write_event("loss", elapsed_s=elapsed_s, cause=cause)

    def _note(self, state: _FreezeState) -> None:
        self._state = state
        write_json(self._folder / _STATE, asdict(state))

    def _path(self, run: int) -> Path:
        return self._folder / str(run)
