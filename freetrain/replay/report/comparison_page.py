"""Runs side by side as a page: one bar for each, and the table."""

from __future__ import annotations

from itertools import groupby

from freetrain import __version__
from freetrain.replay.comparison import RunComparison
from freetrain.replay.report.page import fill
from freetrain.showing.words import NOTHING


def render_comparison(comparison: RunComparison) -> str:
    """The comparison as HTML; runs that have the first of what is varied in common, mostly a log, are a group."""
    runs, axes = comparison.runs, comparison.axes
    works = [figures.work for run in runs for figures in (run.allowed, run.daemon) if figures and figures.work]
    top = max([1.0, *works])
    first = axes[0] if axes else ""

    def percent(work: float | None) -> float:
        """How long a bar is; a full one is the greatest work of all."""
        return round(100 * min(max((work or 0.0) / top, 0.0), 1.0), 2)

    return fill(
        "comparison.html.j2",
        comparison=comparison,
        groups=[(name, list(group)) for name, group in groupby(runs, key=lambda run: run.labels.get(first, ""))],
        percent=percent,
        nothing=NOTHING,
        with_daemon=any(run.daemon for run in runs),
        with_parts=any(run.parts for run in runs),
        with_energy=any(run.energy_kwh is not None for run in runs),
        version=__version__,
    )
