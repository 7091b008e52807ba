"""How runs are shown side by side: as a table and as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from freetrain.cli.output import print_table
from freetrain.replay.comparison import RunComparison, RunFigures
from freetrain.showing.words import NOTHING

COMPARE_FORMAT = "freetrain-comparison/1"

_FIGURES = ("idle node-h", "lent", "work", "best", "evicted", "holes: lent", "holes: work", "delay", "longest")
_OF_PARTS = ("parts: lent", "parts: work")


def print_comparison(comparison: RunComparison) -> None:
    """One line for each run: first what the daemon would have got, then what the holes allow."""
    parts = _OF_PARTS if any(run.parts for run in comparison.runs) else ()
    energy = ("kWh",) if any(run.energy_kwh is not None for run in comparison.runs) else ()
    figures = (*_FIGURES, *parts, *energy)
    print_table((*comparison.axes, *figures), _rows(comparison, bool(parts), bool(energy)), right=figures)


def comparison_document(comparison: RunComparison) -> dict[str, Any]:
    """All of it, for programs."""
    return {"format": COMPARE_FORMAT, **asdict(comparison)}


def _rows(comparison: RunComparison, parts: bool, energy: bool) -> Iterator[tuple[str, ...]]:
    for run in comparison.runs:
        labels = (run.labels.get(axis, NOTHING) for axis in comparison.axes)
        idle = NOTHING if run.idle_node_hours is None else f"{run.idle_node_hours:,.0f}"
        daemon = _way(run.daemon) if run.daemon else (NOTHING,) * 4
        allowed = _way(run.allowed)[:2]
        delays = (_seconds(run.delay_mean_s), _seconds(run.delay_max_s))
        in_parts = (_way(run.parts)[:2] if run.parts else (NOTHING, NOTHING)) if parts else ()
        more = (NOTHING if run.energy_kwh is None else f"{run.energy_kwh:,.0f}",) if energy else ()
        yield (*labels, idle, *daemon, *allowed, *delays, *in_parts, *more)


def _way(way: RunFigures) -> tuple[str, str, str, str]:
    evicted = NOTHING if way.evicted_nodes is None else f"{way.evicted_nodes:,}"
    return _share(way.lent), _share(way.work), _share(way.best), evicted


def _share(value: float | None) -> str:
    return NOTHING if value is None else f"{value:.1%}"


def _seconds(value: float | None) -> str:
    return NOTHING if value is None else f"{value:.1f} s"
