"""Runs side by side: their differences and their figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from freetrain.errors import InputError
from freetrain.store import RunStatus, RunSummary


@dataclass(frozen=True, slots=True)
class RunFigures:
    """Figures of a replay in one way of it; None: not known.

    Attributes:
        lent: part of the idle node-hours that was lent.
        work: work / work of the same trainers on a dedicated machine of as many node-hours.
        best: work / work of the best division at every instant.
        evicted_nodes: nodes taken from trainers for the site's jobs.
    """

    lent: float | None
    work: float | None
    best: float | None
    evicted_nodes: int | None


@dataclass(frozen=True, slots=True)
class ComparedRun:
    """One run of a comparison.

    Attributes:
        labels: its value of everything in which the runs differ.
        daemon: figures as the daemon would have gone; None: not asked.
        parts: figures with parts of nodes lent, too, whose places count as nodes, as the daemon would have gone,
            or, where that was not asked, as the holes allow; None: they were not lent.
        delay_mean_s: seconds by which each of the site's jobs that started on idle nodes would have started later.
        energy_kwh: electricity that it took, where prices were given.
    """

    id: int
    labels: Mapping[str, str]
    idle_node_hours: float | None
    allowed: RunFigures
    daemon: RunFigures | None
    parts: RunFigures | None
    delay_mean_s: float | None
    delay_max_s: float | None
    energy_kwh: float | None

    @property
    def shown(self) -> RunFigures:
        """Figures of the daemon's way, or, where that was not asked, of what the holes allow."""
        return self.daemon or self.allowed


@dataclass(frozen=True, slots=True)
class RunComparison:
    """Runs side by side.

    Attributes:
        axes: in what they differ.
    """

    title: str
    axes: tuple[str, ...]
    runs: tuple[ComparedRun, ...]


def compare_sweep(runs: Sequence[RunSummary], name: str | None) -> RunComparison:
    """The replays of a sweep (None: of the newest), in its order, out of all runs, the newest first.

    Raises:
        InputError: there is no such sweep.
    """
    of_sweeps = [run for run in runs if run.status is RunStatus.COMPLETE and "sweep" in run.settings]
    names = list(dict.fromkeys(str(run.settings["sweep"]) for run in of_sweeps))
    name = name or next(iter(names), None)
    if name not in names:
        there = f"there are {', '.join(names)}" if names else "none has been recorded"
        raise InputError(
            f"There is no sweep {name!r} in the store; {there}." if name else "No sweep has been recorded yet.",
            "freetrain sweep SPEC.toml makes one; freetrain runs compare 3 4 compares single runs.",
        )
    newest: dict[int, RunSummary] = {}
    for run in of_sweeps:
        if run.settings["sweep"] == name:
            # The runs come newest first, so the first of a number is its newest.
            newest.setdefault(int(run.settings["number"]), run)
    chosen = [newest[number] for number in sorted(newest)]
    axes = tuple(dict.fromkeys(axis for run in chosen for axis in run.settings["varied"]))
    return RunComparison(name, axes, tuple(_compared(run, run.settings["varied"]) for run in chosen))


def compare_runs(runs: Sequence[RunSummary], ids: Sequence[int]) -> RunComparison:
    """These runs, in this order.

    Raises:
        InputError: there is no such run, or it has not come to an end.
    """
    by_id = {run.id: run for run in runs}
    for number in ids:
        if number not in by_id:
            raise InputError(f"There is no run {number}.", "freetrain runs lists them.")
        if "idle_node_hours" not in by_id[number].outcome:
            raise InputError(f"Run {number} is no replay that came to its end.", "freetrain runs lists them.")
    chosen = [by_id[number] for number in ids]
    names = dict.fromkeys(name for run in chosen for name in _plain(run))
    axes = tuple(name for name in names if len({_plain(run).get(name) for run in chosen}) > 1)
    labels = [{axis: _plain(run).get(axis, "–") for axis in axes} for run in chosen]
    title = f"runs {', '.join(map(str, ids))}"
    return RunComparison(title, axes, tuple(map(_compared, chosen, labels)))


def _plain(run: RunSummary) -> dict[str, str]:
    return {
        name: ", ".join(map(str, value)) if isinstance(value, list) else str(value)
        for name, value in run.settings.items()
        if name not in ("cell", "number", "varied", "sweep")
    }


def _compared(run: RunSummary, labels: Mapping[str, str]) -> ComparedRun:
    outcome = run.outcome
    daemon = outcome.get("as_daemon") or {}
    site, shares = daemon.get("site", {}), outcome.get("shares") or {}
    in_parts = shares["as_daemon"]["outcome"] if shares.get("as_daemon") else shares.get("replay")
    return ComparedRun(
        run.id,
        dict(labels),
        outcome.get("idle_node_hours"),
        _way(outcome),
        _way(daemon["outcome"]) if daemon else None,
        _way(in_parts) if in_parts else None,
        site.get("site_delay_mean_s"),
        site.get("site_delay_max_s"),
        (outcome.get("worth") or {}).get("energy_kwh"),
    )


def _way(outcome: Mapping[str, Any]) -> RunFigures:
    idle, lent = outcome.get("idle_node_hours"), outcome.get("lent_node_hours")
    part = lent / idle if idle and lent is not None else None
    return RunFigures(part, *map(outcome.get, ("u_work", "u_oracle", "evictions")))
