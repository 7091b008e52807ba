"""Runaway jobs: by the log they still run, but they ended long ago, and Slurm's database never heard of it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
from numpy.typing import NDArray

from freetrain.replay.logs.placing import Placed
from freetrain.replay.logs.times import iso

_GRACE_S = 86_400.0
"""A job may outlast its limit: suspended meanwhile, or as Slurm's OverTimeLimit allows."""
_MOMENT_S = 60.0
"""Jobs that overlap for less have the node one after the other."""
_HINT = "`sacctmgr show runawayjobs` finds such jobs and mends them."


def cut_by_limits(runs: pl.DataFrame, last_s: float) -> tuple[pl.DataFrame, list[str]]:
    """End jobs without an end at their limits if these passed more than a day before the log's end.

    Args:
        runs: columns as of a parsed file.
        last_s: when the log ends.
    """
    limit = pl.col("start_s") + pl.col("limit_s")
    past = pl.col("end_s").is_infinite() & (limit + _GRACE_S < last_s)
    gone = runs.filter(past)
    if gone.is_empty():
        return runs, []
    note = _named(gone, "their time limits passed before the log ends: they count until then")
    return runs.with_columns(pl.when(past).then(limit).otherwise(pl.col("end_s")).alias("end_s")), [note]


def cut_by_successors(placed: Placed) -> tuple[Placed, list[str]]:
    """End jobs without an end where another began, and ended, on a node that they had for themselves.

    On nodes that jobs share this cannot be known; a job that began before what the log covers is named at least.
    """
    runs = placed.runs
    has_no_end = np.isinf(runs["end_s"].to_numpy())
    if not has_no_end.any():
        return placed, []
    next_s, shares = _next_start_s(placed, has_no_end), _on_shared_nodes(placed, has_no_end)
    taken = has_no_end & np.isfinite(next_s)
    over, old = taken & ~shares, taken & shares & (runs["start_s"].to_numpy() < _earliest_end_s(runs))
    notes = []
    if old.any():
        notes.append(_named(runs.filter(pl.Series(old)), "others ran on their nodes since"))
    if not over.any():
        return placed, notes
    notes.append(
        _named(
            runs.filter(pl.Series(over)), "others had their nodes since: they count until the first of these began"
        )
    )
    end_s = np.where(over, next_s, runs["end_s"].to_numpy())
    runs = runs.with_columns(pl.Series("end_s", end_s))
    return replace(placed, runs=runs, busy=replace(placed.busy, end_s=np.repeat(end_s, placed.count))), notes


def _next_start_s(placed: Placed, has_no_end: NDArray[np.bool_]) -> NDArray[np.float64]:
    """When the next job that has an end began on any of each run's nodes; inf where none did."""
    run = np.repeat(np.arange(len(placed.count)), placed.count)
    order = np.lexsort((placed.busy.start_s, placed.busy.node))
    node, start_s, run = placed.busy.node[order], placed.busy.start_s[order], run[order]
    ended = np.flatnonzero(~has_no_end[run])
    following = np.searchsorted(ended, np.arange(len(run)), "right")
    place = np.append(ended, 0)[following]
    later = (following < len(ended)) & (node[place] == node) & (start_s[place] > start_s)
    first_s = np.full(len(placed.count), np.inf)
    np.minimum.at(first_s, run[later], start_s[place][later])
    return first_s


def _on_shared_nodes(placed: Placed, has_no_end: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """For each run, whether jobs that have ends ran beside one another on one of its nodes."""
    ended = ~np.repeat(has_no_end, placed.count)
    node, start_s, end_s = (column[ended] for column in (placed.busy.node, placed.busy.start_s, placed.busy.end_s))
    order = np.lexsort((start_s, node))
    node, start_s, end_s = node[order], start_s[order], end_s[order]
    beside = (node[1:] == node[:-1]) & (start_s[1:] + _MOMENT_S < end_s[:-1])
    shared = np.zeros(len(placed.busy.node_names), bool)
    shared[node[1:][beside]] = True
    run = np.repeat(np.arange(len(placed.count)), placed.count)
    return np.bincount(run, weights=shared[placed.busy.node], minlength=len(placed.count)) > 0


def _earliest_end_s(runs: pl.DataFrame) -> float:
    ends = runs.filter(pl.col("end_s").is_finite())["end_s"].to_numpy()
    return float(ends.min()) if len(ends) else -np.inf


def _named(gone: pl.DataFrame, why: str) -> str:
    first = gone.sort("start_s").row(0, named=True)
    count = "1 job has" if len(gone) == 1 else f"{len(gone):,} jobs have"
    which = f"the first: job {first['job']}, started {iso(first['start_s'])}"
    return f"{count} no end in the log, but {why} ({which}). {_HINT}"
