"""Records decisions of replays, random walks and random problems, or compares them with those of today."""

from __future__ import annotations

import gzip
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import zip_longest
from math import inf
from pathlib import Path
from unittest.mock import patch

import click
from click.testing import CliRunner

from freetrain.cli import replay
from freetrain.cli.replay import replay_command
from tests.golden.cases import CASES
from tests.golden.recorder import Row, recorded
from tests.golden.without_logs import problems, walks

Make = Callable[[], Sequence[Row]]


@click.command()
@click.argument("action", type=click.Choice(["record", "compare"]))
@click.argument("directory", type=click.Path(path_type=Path, file_okay=False))
@click.argument("names", nargs=-1, metavar="[CASE]…")
@click.option("--data", type=click.Path(path_type=Path), help="Where the public traces are.")
def main(action: str, directory: Path, names: tuple[str, ...], data: Path | None) -> None:
    """Record decisions into DIRECTORY, or compare them with what is there."""
    directory.mkdir(parents=True, exist_ok=True)
    differing = 0
    for name, make in chosen(names, data).items():
        if make is None:
            click.echo(f"{name}: its trace is not at hand (--data)")
            continue
        began_s = time.process_time()
        rows = make()
        spent_s = time.process_time() - began_s
        path = directory / f"{name}.jsonl.gz"
        if action == "record":
            path.write_bytes(gzip.compress("\n".join(rows).encode(), mtime=0))
            click.echo(f"{name}: {len(rows):,} rows, {spent_s:.1f} CPU-s with recording")
            continue
        before = gzip.decompress(path.read_bytes()).decode().split("\n")
        difference = next(differences(before, rows), None)
        differing += difference is not None
        click.echo(f"{name}: {difference or 'equal'}, {len(rows):,} rows, {spent_s:.1f} CPU-s with recording")
    if differing:
        raise click.ClickException(f"{differing} recordings differ from what was recorded before.")


def chosen(names: Sequence[str], data: Path | None) -> Mapping[str, Make | None]:
    """Name of a recording → what makes its rows, None: its trace is not at hand; all where none is named."""
    known: dict[str, Make | None] = {"walks": walks, "problems": problems}
    for case in CASES:
        arguments = case.arguments(data)
        known[case.name] = None if arguments is None else partial(rows_of, arguments)
    if strangers := set(names) - known.keys():
        raise click.BadParameter(f"there is no {min(strangers)}; there are {', '.join(known)}")
    return {name: known[name] for name in names or known}


def rows_of(arguments: Sequence[str]) -> list[Row]:
    """The rows of one replay; its figures come last.

    Raises:
        click.ClickException: the replay failed.
    """
    rows: list[Row] = []
    # A long log would be replayed in a process of its own, which nobody records.
    with recorded(rows.append), patch.object(replay, "MANY_HOLES", inf):
        done = CliRunner().invoke(replay_command, list(arguments))
    if done.exit_code:
        raise click.ClickException(f"freetrain replay {' '.join(arguments)} failed: {done.output}{done.exception}")
    return rows


def differences(before: Sequence[Row], now: Sequence[Row]) -> Iterator[str]:
    """Where two recordings differ, first places first."""
    for number, (old, new) in enumerate(zip_longest(before, now, fillvalue="(nothing)"), 1):
        if old != new:
            yield f"row {number} was {old[:300]}, is {new[:300]}"


if __name__ == "__main__":
    main()
