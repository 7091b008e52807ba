"""The process in which pyslurm lives: started when asked, asked with a timeout, ended when anything fails."""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

from freetrain.slurm import commands
from freetrain.slurm.errors import (
    PyslurmUnusableError,
    SlurmError,
    SlurmMissingError,
    SlurmUnreachableError,
    explain,
)
from freetrain.slurm.pyslurm_child import WANTED

PROGRAM = (sys.executable, "-P", str(Path(__file__).with_name("pyslurm_child.py")))
"""Command of the child. Python's ``-P`` imports nothing from this folder or the current one: names could clash."""

OLDEST = (25, 11)
"""The first pyslurm that freetrain has been tried with."""

_LOOK = "See whether slurmctld runs, and whether SLURM_CONF names a file that is there."
_SLURMS_OWN = "Install the pyslurm of Slurm's own version"
_AT_ONCE = 1 << 20
_DIES_WITHIN_S = 1.0


class PyslurmProcess:
    """Client of pyslurm in a child process; a new one is started at the next question after a failure."""

    def __init__(self, timeout_s: float, program: Sequence[str] = PROGRAM) -> None:
        self._timeout_s = timeout_s
        self._program = program
        self._process: subprocess.Popen[bytes] | None = None
        # A file, not a pipe: nobody reads it while the child runs, and a full pipe would stop the child.
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as this object
        self.version = ""

    def ask(self, *collections: str) -> dict[str, list[dict[str, Any]]]:
        """The records of some of pyslurm's collections: :data:`freetrain.slurm.pyslurm_child.WANTED`.

        Raises:
            SlurmUnreachableError: there is no answer; the sentence gives the reason.
            SlurmMissingError: there is no Slurm configuration here.
            PyslurmUnusableError: pyslurm cannot be used here.
        """
        self.start()
        answer = self._exchange(f"{' '.join(collections)}\n".encode())
        if "error" in answer:
            message = answer["error"]
            if "version" in message.lower():
                what = f"pyslurm {self.version} and Slurm's controller do not understand each other: {message}"
                self._give_up(_unusable(what, _SLURMS_OWN))
            self._give_up(SlurmUnreachableError(f"Slurm does not answer pyslurm: {message}", _LOOK))
        return {
            name: [dict(zip(WANTED[name], record, strict=True)) for record in answer[name]] for name in collections
        }

    def start(self) -> None:
        """Start the child program, unless it runs.

        Raises:
            SlurmUnreachableError: it does not come up.
            SlurmMissingError: there is no Slurm configuration here.
            PyslurmUnusableError: pyslurm cannot be used here.
        """
        if self._process is not None:
            return
        self._stderr.seek(0)
        self._stderr.truncate()
        try:
            self._process = subprocess.Popen(
                self._program,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._stderr,
                env={**os.environ, **commands.ENVIRONMENT},
                # An interrupt from the terminal is for the daemon alone.
                process_group=0,
            )
        except (PermissionError, FileNotFoundError) as error:
            program = Path(self._program[0])
            closed = closed_part(program) or program
            what = f"this account cannot execute {closed} ({error.strerror}), which pyslurm's process needs."
            raise _unusable(what, "Let the account execute it (chmod o+x)") from error
        except OSError as error:
            raise SlurmUnreachableError(f"pyslurm's process cannot be started: {error.strerror}.") from error
        hello = self._exchange(b"")
        if "missing" in hello:
            self._give_up(_unusable(f"pyslurm cannot be imported: {hello['missing']}", _SLURMS_OWN))
        self.version = str(hello.get("version", ""))
        if not _is_known(self.version):
            what = f"pyslurm {self.version or 'of no version'} is older than {OLDEST[0]}.{OLDEST[1]}."
            self._give_up(_unusable(what, "Install a newer one"))

    def close(self) -> None:
        """End the child program; another question starts it again."""
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        # A process that waits for a file server does not end at once, not even when it is killed.
        with suppress(subprocess.TimeoutExpired):
            process.wait(_DIES_WITHIN_S)
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                # Closing writes what is left of a question that nobody reads any more.
                with suppress(BrokenPipeError):
                    stream.close()

    def _exchange(self, question: bytes) -> dict[str, Any]:
        process = self._process
        assert process is not None
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(question)
            process.stdin.flush()
            answer = json.loads(self._line(process.stdout.fileno()))
        except TimeoutError:
            self._give_up(SlurmUnreachableError(f"pyslurm got no answer within {self._timeout_s:g} s.", _LOOK))
        except (BrokenPipeError, EOFError):
            self._give_up(self._how_it_ended(process))
        except ValueError as error:
            self._give_up(SlurmUnreachableError(f"what pyslurm's process answers is no JSON: {error}"))
        if not isinstance(answer, dict):
            self._give_up(SlurmUnreachableError(f"pyslurm's process answers nonsense: {str(answer)[:80]}"))
        return answer

    def _line(self, stream: int) -> bytes:
        # Read piece by piece with a deadline: readline() on a pipe has none.
        deadline_s = time.monotonic() + self._timeout_s
        pieces = [b""]
        with selectors.DefaultSelector() as selector:
            selector.register(stream, selectors.EVENT_READ)
            while not pieces[-1].endswith(b"\n"):
                if not selector.select(max(0.0, deadline_s - time.monotonic())):
                    raise TimeoutError
                pieces.append(os.read(stream, _AT_ONCE))
                if not pieces[-1]:
                    raise EOFError
        return b"".join(pieces)

    def _how_it_ended(self, process: subprocess.Popen[bytes]) -> SlurmUnreachableError | SlurmMissingError:
        try:
            code = process.wait(_DIES_WITHIN_S)
        except subprocess.TimeoutExpired:
            # It has closed its output and hangs; it is killed next.
            code = 0
        self._stderr.seek(0)
        printed = self._stderr.read().decode(errors="replace").strip()
        known = explain("pyslurm", printed)
        if isinstance(known, SlurmMissingError):
            return known
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        last = printed.splitlines()[-1] if printed else "it printed nothing"
        return SlurmUnreachableError(f"pyslurm's process ended ({how}): {last}", _LOOK)

    def _give_up(self, failure: SlurmError) -> NoReturn:
        self.close()
        raise failure


def closed_part(
    program: Path, may_execute: Callable[[Path], bool] = lambda part: os.access(part, os.X_OK)
) -> Path | None:
    """The first folder on the way to a program, or the program, that may not be executed; None: all may be.

    The Python of a virtual environment is a link, often into the home of its maker: both ways are tried.
    """
    ways = (program, program.resolve())
    parts = [part for way in ways for part in (*reversed(way.parents), way)]
    return next((part for part in parts if not may_execute(part)), None)


def _unusable(what: str, mend: str) -> PyslurmUnusableError:
    return PyslurmUnusableError(what, f"{mend}, or set slurm.backend to 'cli', which works with every Slurm.")


def _is_known(version: str) -> bool:
    numbers = version.split(".")[:2]
    return all(number.isdigit() for number in numbers) and tuple(map(int, numbers)) >= OLDEST
