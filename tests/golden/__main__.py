"""Records golden replays, or compares them with what is replayed now."""

from __future__ import annotations

import gzip
import time
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from math import inf
from pathlib import Path
from unittest.mock import patch

import click
from click.testing import CliRunner

from freetrain.cli import replay_as_daemon
from freetrain.cli.replay import replay_command
from tests.golden.cases import CASES, Case
from tests.golden.recorder import Row, recorded


@click.command()
@click.argument("action", type=click.Choice(["record", "compare"]))
@click.argument("directory", type=click.Path(path_type=Path, file_okay=False))
@click.argument("names", nargs=-1, metavar="[CASE]…")
@click.option("--data", type=click.Path(path_type=Path), help="Where the public traces are.")
def main(action: str, directory: Path, names: tuple[str, ...], data: Path | None) -> None:
    """Record replays as the daemon into DIRECTORY, or compare them with what is there."""
    directory.mkdir(parents=True, exist_ok=True)
    differing = 0
    for case in chosen(names):
        if (arguments := case.arguments(data)) is None:
            click.echo(f"{case.name}: its trace is not at hand (--data)")
            continue
        began_s = time.process_time()
        rows = rows_of(arguments)
        spent_s = time.process_time() - began_s
        path = directory / f"{case.name}.jsonl.gz"
        if action == "record":
            path.write_bytes(gzip.compress("\n".join(rows).encode(), mtime=0))
            click.echo(f"{case.name}: {len(rows):,} rows, {spent_s:.1f} CPU-s with recording")
            continue
        before = gzip.decompress(path.read_bytes()).decode().split("\n")
        difference = next(differences(before, rows), None)
        differing += difference is not None
        click.echo(f"{case.name}: {difference or 'equal'}, {len(rows):,} rows, {spent_s:.1f} CPU-s with recording")
    if differing:
        raise click.ClickException(f"{differing} replays differ from what was recorded.")


def chosen(names: Sequence[str]) -> list[Case]:
    """The cases of these names; all where none is named."""
    known = {case.name: case for case in CASES}
    if strangers := set(names) - known.keys():
        raise click.BadParameter(f"there is no {min(strangers)}; there are {', '.join(known)}")
    return [known[name] for name in names] or list(CASES)


def rows_of(arguments: Sequence[str]) -> list[Row]:
    """The rows of one replay; its figures come last.

    Raises:
        click.ClickException: the replay failed.
    """
    rows: list[Row] = []
    # A long log would be replayed in a process of its own, which nobody records.
    with recorded(rows.append), patch.object(replay_as_daemon, "MANY_HOLES", inf):
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
