"""``freetrain sweep``: many replays that differ in the options that one file varies."""

from __future__ import annotations

import os
import shlex
import signal
import sys
import time
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import NoReturn

import click

from freetrain.cli.helping import command
from freetrain.cli.listing import require_place
from freetrain.cli.options import argument, option, shared_option, store_option
from freetrain.cli.progress_bars import counting
from freetrain.cli.replay import replay_command
from freetrain.cli.runs import show_comparison
from freetrain.errors import FreetrainError, InputError, explained
from freetrain.replay.comparison import compare_sweep
from freetrain.replay.sweep import Cell, FinishedReplay, Sweep, do_here, do_on_slurm, known, read_sweep, record
from freetrain.store import Store, default_store_path

_OUTPUT = ("report", "no-report", "title", "store", "no-store", "json", "quiet", "rejects", "definitions")
_ITS_OWN = frozenset(f"--{name}" for name in _OUTPUT)


@dataclass(frozen=True, slots=True)
class SweepOptions:
    """The options of ``freetrain sweep``."""

    data: Path | None = option("--data", "Where its files are, if not beside it.", metavar="DIR")
    workers: int = option(
        "--workers",
        "Replays at once on this machine.",
        type=click.IntRange(min=1),
        default=lambda: max(len(os.sched_getaffinity(0)), 1),
        show_default="one for each core",
        metavar="N",
    )
    executor: str = option("--executor", "", type=click.Choice(["here", "slurm"]), default="here")
    folder: Path | None = option(
        "--folder",
        "With --executor slurm: a folder that all nodes see [default: NAME.sweep in this one].",
        metavar="DIR",
    )
    sbatch: str = option(
        "--sbatch",
        "With --executor slurm: more options of sbatch.",
        default="",
        show_default=False,
        metavar="OPTIONS",
    )
    picture: Path | None = option("--picture", "Draw the table, too, as one HTML file.", metavar="FILE.html")
    as_json: bool = option("--json", "Print JSON.")
    quiet: bool = option("--quiet -q", "Show no progress.")
    store_path: Path | None = shared_option(store_option)


@command("sweep", first=("--workers", "--executor", "--picture", "--data", "--json"))
def sweep_command(options: SweepOptions, spec: Path = argument(metavar="SPEC.toml")) -> None:
    """Replay logs in many ways: policies, costs, horizons, whatever SPEC.toml varies (docs/reference/sweeps.md).

    Every replay is recorded when it is over, and done once: the same command goes on where it was ended.
    """
    sweep = read_sweep(spec, options.data)
    for cell in sweep.cells:
        check(cell)
    if options.picture is not None:
        require_place(options.picture, "Name another place with --picture.")
    store = Store.open(options.store_path or default_store_path())
    done = known(store, sweep)
    missing = [cell for cell in sweep.cells if cell.key not in done]
    if options.executor == "here":
        finished = do_here(missing, options.workers)
    else:
        hint = "Write it as --sbatch '--partition=batch --time=2:00:00'."
        with explained(f"--sbatch {options.sbatch} cannot be read", hint):
            sbatch = shlex.split(options.sbatch)
        finished = do_on_slurm(missing, options.folder or Path(f"{sweep.name}.sweep"), sbatch)
    failed = _do(sweep, len(missing), finished, store, options.quiet)
    comparison = compare_sweep(store.runs(), sweep.name) if len(failed) < len(sweep.cells) else None
    if comparison is not None:
        show_comparison(comparison, options.picture, options.as_json)
    if failed:
        raise FreetrainError(
            f"{len(failed)} of {len(sweep.cells)} replays failed: {failed[0].cell.name}: {failed[0].why}",
            "The same command tries them again: freetrain replay " + shlex.join(failed[0].cell.arguments),
        )


def check(cell: Cell) -> None:
    """Refuse what ``freetrain replay`` would refuse at once, before anything is begun."""
    for word in cell.arguments:
        if word in _ITS_OWN:
            raise InputError(f"A sweep cannot set {word}: it sees to that itself.", "Leave it out.")
    try:
        replay_command.make_context("freetrain replay", list(cell.arguments))
    except click.ClickException as error:
        raise InputError(
            f"The replay {cell.name} cannot be done: {error.format_message()}",
            "Options are those of freetrain replay --help, without the dashes.",
        ) from error


def _do(
    sweep: Sweep, missing: int, finished: Generator[FinishedReplay, None, None], store: Store, quiet: bool
) -> list[FinishedReplay]:
    failed = []
    with (
        _ended_in_order(),
        counting("replays", len(sweep.cells), quiet, len(sweep.cells) - missing) as tell,
        closing(finished),
    ):
        for done in finished:
            if done.document is None:
                failed.append(done)
            else:
                record(store, sweep, done, time.time())
            tell(done.cell.name if done.document else f"{done.cell.name}: {done.why}")
    return failed


@contextmanager
def _ended_in_order() -> Iterator[None]:

    def end(number: int, frame: FrameType | None) -> NoReturn:
        sys.exit(128 + number)

    # SIGTERM alone would leave the replays' processes running; an exception ends them as Ctrl-C does.
    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
