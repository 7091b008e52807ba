"""Sweeps: many replays that differ in what one file varies, done side by side, recorded, and resumable.

1. ``read_sweep`` makes cells of the file, one for each replay; the key of a cell is a digest of all that its
   outcome depends on.
2. ``known`` finds those that the store has already.
3. ``do_here`` does the missing ones in processes of this machine; ``do_on_slurm`` as tasks of Slurm arrays,
   through a folder that all nodes see. It holds a script for each replay (``KEY.sh``), its output (``KEY.json``,
   there only when it is whole), its errors (``KEY.err``), and for each array the keys of its tasks
   (``array-JOB.keys``): the same command, started again, finds what is done and waits for what Slurm still has.
4. ``record`` keeps each as a run without decisions. The store has one writer, this process.
"""

from __future__ import annotations

import hashlib
import json
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from functools import cache, partial
from itertools import product
from pathlib import Path
from threading import Lock
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from freetrain import __version__
from freetrain.core.problem import first_error
from freetrain.errors import InputError, StateError, explained
from freetrain.replay.logs.toml_files import read_toml
from freetrain.store import NewRun, RunStatus, RunSummary, Store

OptionValue = bool | int | float | str | list[int | float | str]
_Options = dict[str, OptionValue]
_HINT = "docs/reference/sweeps.md shows a whole one."

FILES = frozenset({"machine", "node-states", "reservations", "prices"})
"""Options that name a file."""
_EVERY_S = 2.0
# ``MaxArraySize`` is 1001 unless the site says otherwise.
_MAX_TASKS = 1000
_ARRAY = """#!/bin/sh
# One task of a sweep: the replay whose key stands in line SLURM_ARRAY_TASK_ID + 1.
key=$(sed -n "$((SLURM_ARRAY_TASK_ID + 1))p" {keys})
exec sh {folder}/"$key".sh
"""
_REPLAY = """#!/bin/sh
{command} > {result}.part 2> {errors} && mv {result}.part {result}
"""
_RESUME_HINT = "The sweep can be resumed with the same command."
CommandRunner = Callable[[Sequence[str]], "subprocess.CompletedProcess[str]"]


@dataclass(frozen=True, slots=True)
class Cell:
    """One replay of a sweep.

    Attributes:
        labels: its value of everything that is varied, such as ``{"log": "june", "policy": "greedy"}``.
        key: a digest of all that its outcome depends on, the contents of files included.
    """

    number: int
    labels: Mapping[str, str]
    arguments: tuple[str, ...]
    key: str

    @property
    def name(self) -> str:
        """Labels of the replay in one line."""
        return ", ".join(self.labels.values())


@dataclass(frozen=True, slots=True)
class Sweep:
    """A sweep."""

    name: str
    cells: tuple[Cell, ...]


class _SweptLog(BaseModel):
    model_config = ConfigDict(extra="allow", frozen=True)

    files: str | Annotated[list[str], Field(min_length=1)]


class _Spec(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    format: Literal["freetrain-sweep/1"]
    name: Annotated[str, Field(min_length=1)] | None = None
    options: _Options = {}
    logs: Annotated[dict[str, _SweptLog], Field(min_length=1)]
    vary: dict[str, list[int | float | str] | dict[str, _Options]] = {}


@dataclass(frozen=True, slots=True)
class _VariedValue:
    """One value of something that is varied: its label, and the options and files that it means."""

    axis: str
    label: str
    options: Mapping[str, Any]
    files: Sequence[str] = ()


def read_sweep(path: Path, data: Path | None = None) -> Sweep:
    """Read a sweep's TOML file; what it names is looked for in ``data``, then in the file's own folder.

    Raises:
        InputError: it cannot be read, describes no sweep, or names a file that is not there.
    """
    content = read_toml(path, "sweep", _HINT)
    try:
        spec = _Spec.model_validate(content)
    except ValidationError as error:
        raise InputError(f"{path} describes no sweep: {first_error(error)}.", _HINT) from None
    find = partial(_find, folders=[folder for folder in (data, path.parent) if folder is not None])
    # Many replays read the same files.
    digest = cache(_digest)
    cells = (
        _cell(number, choices, spec.options, find, digest) for number, choices in enumerate(product(*_axes(spec)))
    )
    return Sweep(spec.name or path.stem, tuple(cells))


def _find(name: str, folders: Sequence[Path]) -> Path:
    for folder in folders:
        if (found := folder / name).is_file():
            return found.resolve()
    where = " nor in ".join(str(folder.resolve()) for folder in folders)
    missing = "not" if len(folders) == 1 else "neither"
    raise InputError(f"The sweep names {name}, which is {missing} in {where}.", "--data says where its files are.")


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _axes(spec: _Spec) -> Iterator[list[_VariedValue]]:
    """Axes of the sweep: the values of each thing that is varied; logs come first."""
    yield [
        _VariedValue("log", name, log.model_extra or {}, [log.files] if isinstance(log.files, str) else log.files)
        for name, log in spec.logs.items()
    ]
    for axis, values in spec.vary.items():
        if isinstance(values, list):
            yield [_VariedValue(axis, _text(value), {axis: value}) for value in values]
        else:
            yield [_VariedValue(axis, label, options) for label, options in values.items()]


def _cell(
    number: int,
    choices: tuple[_VariedValue, ...],
    common: _Options,
    find: Callable[[str], Path],
    digest: Callable[[Path], str],
) -> Cell:
    options = dict(common)
    for choice in choices:
        options.update(choice.options)
    labels = {choice.axis: choice.label for choice in choices}
    logs = [find(name) for choice in choices for name in choice.files]
    arguments, contents = [str(log) for log in logs], [digest(log) for log in logs]
    for name, value in options.items():
        for item in value if isinstance(value, list) else [value]:
            text = _text(item)
            file = find(named) if (named := _file_in(name, text)) else None
            if not isinstance(item, bool):
                arguments += [f"--{name}", text if file is None else f"{text.removesuffix(named)}{file}"]
            elif item:
                arguments.append(f"--{name}")
            contents += [name, text if file is None else digest(file)]
    # The version is part of the key: another freetrain may decide otherwise, and its figures do not mix.
    what = json.dumps([__version__, labels, contents]).encode()
    return Cell(number, labels, tuple(arguments), hashlib.sha256(what).hexdigest()[:16])


def _file_in(name: str, text: str) -> str:
    """The file that an option's value names; empty for none."""
    if name in FILES or (name == "trainers" and not text.startswith("preset:")):
        return text
    return text.partition("=")[2] if name == "as" else ""


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float) and float(f"{value:g}") == value:
        return f"{value:g}"
    return str(value)


def known(store: Store, sweep: Sweep) -> dict[str, RunSummary]:
    """The sweep's replays that are in the store, by their keys; of several the newest."""
    keys = {cell.key for cell in sweep.cells}
    found: dict[str, RunSummary] = {}
    for run in store.runs():
        key = run.settings.get("cell")
        if run.status is RunStatus.COMPLETE and key in keys:
            found.setdefault(key, run)
    return found


def record(store: Store, sweep: Sweep, done: FinishedReplay, now_s: float) -> None:
    """Keep the outcome of a replay that has not failed."""
    cell, document = done.cell, done.document
    assert document is not None
    settings = {
        "sweep": sweep.name,
        "cell": cell.key,
        "number": cell.number,
        "varied": dict(cell.labels),
        **document["settings"],
    }
    log = document["log"]
    command = shlex.join(["freetrain", "replay", *cell.arguments])
    run = NewRun(
        command, document["version"], settings, now_s, log["from_s"], log["until_s"], (), node_count=log["nodes"]
    )
    with store.begin_run(run) as journal:
        more = {name: document[name] for name in ("as_daemon", "shares", "worth", "wall_s")}
        journal.finish({**document["outcome"], **more}, (), now_s)


@dataclass(frozen=True, slots=True)
class FinishedReplay:
    """A replay that is over.

    Attributes:
        document: output of ``freetrain replay --json``; None: it failed.
        why: its last words on standard error where it failed.
    """

    cell: Cell
    document: dict[str, Any] | None
    why: str = ""


def command_of(cell: Cell) -> list[str]:
    """The command that does a replay of a sweep, and prints its outcome."""
    quietly = ("--exact", "--json", "--quiet", "--no-store", "--no-report")
    return [sys.executable, "-m", "freetrain", "replay", *cell.arguments, *quietly]


def finished(cell: Cell, printed: str, errors: str) -> FinishedReplay:
    """Outcome of a replay, from what it printed to standard output and errors on standard error."""
    try:
        return FinishedReplay(cell, json.loads(printed))
    except ValueError:
        last = errors.strip().splitlines()[-3:]
        return FinishedReplay(cell, None, " ".join(line.strip() for line in last) or "It ended without a word.")


def do_here(cells: Sequence[Cell], workers: int) -> Generator[FinishedReplay, None, None]:
    """Do the replays on this machine, so many at once; each is yielded when it is over.

    Anybody who stops asking ends those that run.
    """
    running = _ReplayProcesses()
    pool = ThreadPoolExecutor(workers)
    try:
        for done in as_completed([pool.submit(running.do, cell) for cell in cells]):
            yield done.result()
    finally:
        running.end()
        pool.shutdown(cancel_futures=True)


class _ReplayProcesses:
    def __init__(self) -> None:
        self._lock = Lock()
        self._processes: set[subprocess.Popen[str]] = set()
        self._is_over = False

    def do(self, cell: Cell) -> FinishedReplay:
        with self._lock:
            if self._is_over:
                return FinishedReplay(cell, None, "It was not begun.")
            # Begun within the lock, so that end() finds every process; and in this thread, since a signal that the
            # main thread gets in Popen would leave a process behind that nobody knows.
            process = subprocess.Popen(
                command_of(cell),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            self._processes.add(process)
        printed, errors = process.communicate()
        with self._lock:
            self._processes.discard(process)
        return finished(cell, printed if process.returncode == 0 else "", errors)

    def end(self) -> None:
        with self._lock:
            self._is_over = True
            for process in self._processes:
                process.kill()


def run_command(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """Run a command of Slurm's.

    Raises:
        StateError: there is none here.
    """
    with explained(f"Slurm's command {command[0]} cannot be run", "Leave --executor slurm out.", StateError):
        return subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)


def do_on_slurm(
    cells: Sequence[Cell],
    folder: Path,
    options: Sequence[str],
    run: CommandRunner = run_command,
    pause: Callable[[float], None] = time.sleep,
) -> Generator[FinishedReplay, None, None]:
    """Do the replays on Slurm; each is yielded when it is over. They go on if the caller asks for no more.

    The folder is on a file system that this machine and all nodes see; ``options`` are sbatch's.

    Raises:
        StateError: the folder cannot be written, or Slurm refuses the array.
    """
    folder = folder.resolve()
    known_arrays = sorted(path.stem.removeprefix("array-") for path in folder.glob("array-*.keys"))
    arrays = [job for job in known_arrays if not _has_ended(job, run)]
    under_way = {key for job in arrays for key in (folder / f"array-{job}.keys").read_text().split()}
    missing = [cell for cell in cells if cell.key not in under_way and not _result(folder, cell.key).exists()]
    with explained(f"The folder {folder} cannot be written", "Name another one with --folder.", StateError):
        for begin in range(0, len(missing), _MAX_TASKS):
            arrays.append(_submit(missing[begin : begin + _MAX_TASKS], folder, options, run))
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


def _submit(cells: Sequence[Cell], folder: Path, options: Sequence[str], run: CommandRunner) -> str:
    folder.mkdir(parents=True, exist_ok=True)
    for cell in cells:
        result, errors = (shlex.quote(str(folder / f"{cell.key}.{end}")) for end in ("json", "err"))
        text = _REPLAY.format(command=shlex.join(command_of(cell)), result=result, errors=errors)
        (folder / f"{cell.key}.sh").write_text(text)
    new_keys = folder / f"new-{cells[0].key}.keys"
    script = folder / f"new-{cells[0].key}.sh"
    new_keys.write_text("".join(f"{cell.key}\n" for cell in cells))
    script.write_text(_ARRAY.format(keys=shlex.quote(str(new_keys)), folder=shlex.quote(str(folder))))
    output = folder / "task-%A-%a.out"
    asked = run(
        ("sbatch", "--parsable", f"--array=0-{len(cells) - 1}", "--job-name=freetrain-sweep", f"--output={output}",
         *options, str(script))
    )  # fmt: skip
    if asked.returncode:
        raise StateError(f"Slurm does not take the array: {asked.stderr.strip()}", _RESUME_HINT)
    job = asked.stdout.strip().partition(";")[0]
    # Only now has Slurm the array: what such a file names is under way, and is not submitted again.
    (folder / f"array-{job}.keys").write_text(new_keys.read_text())
    return job


def _has_ended(job: str, run: CommandRunner) -> bool:
    """Whether all tasks of an array are over; an error of Slurm's does not mean that."""
    asked = run(("squeue", "--noheader", "--array", f"--jobs={job}", "--format=%t"))
    return "Invalid job id" in asked.stderr if asked.returncode else not asked.stdout.strip()


def _result(folder: Path, key: str) -> Path:
    return folder / f"{key}.json"


def _read(folder: Path, cell: Cell) -> FinishedReplay:
    result, errors = _result(folder, cell.key), folder / f"{cell.key}.err"
    return finished(
        cell, result.read_text() if result.exists() else "", errors.read_text() if errors.exists() else ""
    )
