"""Runs side by side as a page: one bar for each, and the table."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from freetrain import __version__
from freetrain.replay.comparison import ComparedRun, RunComparison
from freetrain.replay.report.page import fill, write_page
from freetrain.showing.words import NOTHING, amount, share


@dataclass(frozen=True, slots=True)
class RunBar:
    """A run in the picture.

    Attributes:
        labels: what it has of everything in which the runs differ, the first left out.
        lent: part of the idle node-hours that was lent.
        work: work, as a share of that of a dedicated machine.
        percent: how long the bar is; a full one is the greatest work of all.
        allowed_percent: where the mark of what the holes allow stands; None: there is no other.
        allowed: the same in words.
        evicted: nodes taken back.
        delay: how much later the site's jobs start on average.
        parts: part of the task-hours that was lent where parts of nodes were, too.
        energy: kWh.
    """

    labels: tuple[str, ...]
    lent: str
    work: str
    percent: float
    allowed_percent: float | None
    allowed: str
    evicted: str
    delay: str
    parts: str
    energy: str


@dataclass(frozen=True, slots=True)
class RunBarGroup:
    """Runs that have the first of what is varied in common, mostly a log."""

    name: str
    bars: tuple[RunBar, ...]


def write_comparison(path: Path, comparison: RunComparison) -> None:
    """Write a comparison as one HTML file that needs no network and no script.

    Raises:
        StateError: the file cannot be written.
    """
    write_page(path, render_comparison(comparison))


def render_comparison(comparison: RunComparison) -> str:
    """The comparison as HTML."""
    return fill(
        "comparison.html.j2",
        comparison=comparison,
        groups=tuple(_groups(comparison)),
        with_daemon=any(run.daemon for run in comparison.runs),
        with_parts=any(run.parts for run in comparison.runs),
        with_energy=any(run.energy_kwh is not None for run in comparison.runs),
        version=__version__,
    )


def _groups(comparison: RunComparison) -> Iterator[RunBarGroup]:
    works = [way.work for run in comparison.runs for way in (run.allowed, run.daemon) if way and way.work]
    top = max([1.0, *works])
    first = comparison.axes[0] if comparison.axes else ""
    for name, runs in groupby(comparison.runs, key=lambda run: run.labels.get(first, "")):
        yield RunBarGroup(name, tuple(_bar(run, comparison.axes[1:], top) for run in runs))


def _bar(run: ComparedRun, axes: tuple[str, ...], top: float) -> RunBar:
    shown, allowed = run.shown, run.allowed
    return RunBar(
        tuple(run.labels.get(axis, NOTHING) for axis in axes),
        share(shown.lent),
        share(shown.work),
        _percent(shown.work, top),
        _percent(allowed.work, top) if run.daemon and allowed.work is not None else None,
        share(allowed.work),
        NOTHING if shown.evicted_nodes is None else f"{shown.evicted_nodes:,}",
        NOTHING if run.delay_mean_s is None else f"{run.delay_mean_s:.1f} s",
        share(run.parts.lent) if run.parts else NOTHING,
        NOTHING if run.energy_kwh is None else amount(run.energy_kwh),
    )


def _percent(work: float | None, top: float) -> float:
    return round(100 * min(max((work or 0.0) / top, 0.0), 1.0), 2)
