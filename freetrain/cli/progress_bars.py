"""Progress bars on standard error, where somebody is looking."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn


@contextmanager
def reading(quiet: bool) -> Iterator[Callable[[str], None]]:
    """Show a spinner; the yielded function takes the stage that begins."""
    with _progress(quiet) as progress:
        task = progress.add_task("Reading", total=None)
        yield lambda stage: progress.update(task, description=stage)


@contextmanager
def advancing(title: str, total: float, quiet: bool, begin: float = 0.0) -> Iterator[Callable[[float], None]]:
    """Show a bar; the yielded function takes the position, from ``begin`` on."""
    with _progress(quiet) as progress:
        task = progress.add_task(title, total=total)
        # A replay tells of each of its events: where nobody looks that must cost nothing.
        yield lambda at: None if progress.disable else progress.update(task, completed=min(at - begin, total))


@contextmanager
def counting(what: str, total: int, quiet: bool, there: int = 0) -> Iterator[Callable[[str], None]]:
    """Show how many are over; the yielded function takes the name of each, and prints it where nobody looks."""
    over = there
    with _progress(quiet) as progress:
        task = progress.add_task(what.capitalize(), total=total, completed=there)

        def tell(name: str) -> None:
            nonlocal over
            over += 1
            progress.update(task, completed=over, description=f"{over} of {total} {what}")
            if name and not quiet and not sys.stderr.isatty():
                print(f"{over} of {total}: {name}", file=sys.stderr, flush=True)

        yield tell


def _progress(quiet: bool) -> Progress:
    return Progress(
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TaskProgressColumn(),
        TimeRemainingColumn(),
        console=Console(file=sys.stderr),
        transient=True,
        disable=quiet or not sys.stderr.isatty(),
    )
