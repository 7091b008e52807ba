"""Doing the replays of a sweep as tasks of Slurm arrays, through a folder that all nodes see.

The folder holds a script for each replay (``KEY.sh``), what it printed (``KEY.json``, there only when it is whole)
and said (``KEY.err``), and for each array the keys of its tasks (``array-JOB.keys``). So whoever asks again finds
what is done, and waits for what Slurm still has.
"""

from __future__ import annotations

import shlex
import subprocess
import time
from collections.abc import Callable, Generator, Sequence
from pathlib import Path

from freetrain.errors import StateError
from freetrain.replay.sweep.doing import Finished, command_of, finished
from freetrain.replay.sweep.spec import Cell
from freetrain.slurm.arrays import MOST_TASKS, ask_array, is_over, submit_array

_EVERY_S = 2.0
_ARRAY = """#!/bin/sh
# One task of a sweep: the replay whose key stands in line SLURM_ARRAY_TASK_ID + 1.
key=$(sed -n "$((SLURM_ARRAY_TASK_ID + 1))p" {keys})
exec sh {folder}/"$key".sh
"""
_REPLAY = """#!/bin/sh
{command} > {result}.part 2> {said} && mv {result}.part {result}
"""
_HINT = "The sweep can be resumed with the same command."

Run = Callable[[Sequence[str]], "subprocess.CompletedProcess[str]"]


def run_command(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """Run a command of Slurm's.

    Raises:
        StateError: there is none here.
    """
    try:
        return subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    except OSError as error:
        raise StateError(
            f"Slurm's command {command[0]} cannot be run: {error.strerror}.", "Leave --executor slurm out."
        ) from error


def do_on_slurm(
    cells: Sequence[Cell],
    folder: Path,
    options: Sequence[str],
    run: Run = run_command,
    pause: Callable[[float], None] = time.sleep,
) -> Generator[Finished, None, None]:
    """Do the replays on Slurm; each is told when it is over. They go on if nobody asks any more.

    Args:
        cells: the replays.
        folder: on a file system that this machine and all nodes see.
        options: of sbatch, such as a partition.
        run: runs a command.
        pause: waits so many seconds between two questions.

    Raises:
        StateError: the folder cannot be written, or Slurm refuses the array.
    """
    folder = folder.resolve()
    arrays = [job for job in _arrays(folder) if not _has_ended(job, run)]
    under_way = {key for job in arrays for key in _keys(folder, job)}
    missing = [cell for cell in cells if cell.key not in under_way and not _result(folder, cell.key).exists()]
    for begin in range(0, len(missing), MOST_TASKS):
        arrays.append(_submit(missing[begin : begin + MOST_TASKS], folder, options, run))
    waiting = list(cells)
    while waiting:
        # In this order: what is there when all have ended is all that there will be.
        arrays = [job for job in arrays if not _has_ended(job, run)]
        there = [cell for cell in waiting if _result(folder, cell.key).exists()]
        yield from (_read(folder, cell) for cell in there)
        waiting = [cell for cell in waiting if cell not in there]
        if waiting and not arrays:
            pause(_EVERY_S)  # a network file system may show other machines' files late
            yield from (_read(folder, cell) for cell in waiting)
            return
        if waiting:
            pause(_EVERY_S)


def _submit(cells: Sequence[Cell], folder: Path, options: Sequence[str], run: Run) -> str:
    try:
        return _submit_array(cells, folder, options, run)
    except OSError as error:
        raise StateError(
            f"The folder {folder} cannot be written: {error.strerror}.", "Name another one with --folder."
        ) from error


def _submit_array(cells: Sequence[Cell], folder: Path, options: Sequence[str], run: Run) -> str:
    folder.mkdir(parents=True, exist_ok=True)
    for cell in cells:
        result, said = (shlex.quote(str(folder / f"{cell.key}.{end}")) for end in ("json", "err"))
        text = _REPLAY.format(command=shlex.join(command_of(cell)), result=result, said=said)
        (folder / f"{cell.key}.sh").write_text(text)
    new_keys = folder / f"new-{cells[0].key}.keys"
    script = folder / f"new-{cells[0].key}.sh"
    new_keys.write_text("".join(f"{cell.key}\n" for cell in cells))
    script.write_text(_ARRAY.format(keys=shlex.quote(str(new_keys)), folder=shlex.quote(str(folder))))
    asked = run(submit_array(str(script), len(cells), "freetrain-sweep", str(folder / "task-%A-%a.out"), options))
    if asked.returncode:
        raise StateError(f"Slurm does not take the array: {asked.stderr.strip()}", _HINT)
    job = asked.stdout.strip().partition(";")[0]
    (folder / f"array-{job}.keys").write_text(new_keys.read_text())
    return job


def _arrays(folder: Path) -> list[str]:
    return sorted(path.stem.removeprefix("array-") for path in folder.glob("array-*.keys"))


def _keys(folder: Path, job: str) -> list[str]:
    return (folder / f"array-{job}.keys").read_text().split()


def _has_ended(job: str, run: Run) -> bool:
    asked = run(ask_array(job))
    return is_over(asked.returncode, asked.stdout, asked.stderr)


def _result(folder: Path, key: str) -> Path:
    return folder / f"{key}.json"


def _read(folder: Path, cell: Cell) -> Finished:
    result, said = _result(folder, cell.key), folder / f"{cell.key}.err"
    return finished(cell, result.read_text() if result.exists() else "", said.read_text() if said.exists() else "")
