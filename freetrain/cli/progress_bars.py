"""Progress bars on standard error, where somebody is looking."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn


@contextmanager
def reading(quiet: bool) -> Iterator[Callable[[str], None]]:
    """Show a spinner; what is yielded takes the stage that begins."""
    with _progress(quiet) as progress:
        task = progress.add_task("Reading", total=None)
        yield lambda stage: progress.update(task, description=stage)


@contextmanager
def advancing(title: str, total: float, quiet: bool, begin: float = 0.0) -> Iterator[Callable[[float], None]]:
    """Show a bar; what is yielded takes how far it is, from ``begin`` on."""
    with _progress(quiet) as progress:
        task = progress.add_task(title, total=total)
        # A replay tells of each of its events: where nobody looks that must cost nothing.
        yield lambda at: None if progress.disable else progress.update(task, completed=min(at - begin, total))


@contextmanager
def experimenting(seeds: int, quiet: bool) -> Iterator[Callable[[int], None]]:
    """Show a bar; what is yielded takes how many seeds are over."""
    with _progress(quiet) as progress:
        task = progress.add_task("Seeds", total=seeds)
        yield lambda over: progress.update(task, completed=over, description=f"{over} of {seeds} seeds")


@contextmanager
def counting(all_of_them: int, there: int, quiet: bool) -> Iterator[Callable[[str], None]]:
    """Show how many are over; what is yielded takes each as it is. Where nobody looks, a line for each."""
    over = there
    with _progress(quiet) as progress:
        task = progress.add_task("Replays", total=all_of_them, completed=there)

        def tell(name: str) -> None:
            nonlocal over
            over += 1
            progress.update(task, completed=over, description=f"{over} of {all_of_them} replays")
            if not quiet and not sys.stderr.isatty():
                print(f"{over} of {all_of_them}: {name}", file=sys.stderr, flush=True)

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
