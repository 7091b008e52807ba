"""Runaway jobs: by the log they still run, but they ended long ago, and Slurm's database never heard of it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import polars as pl
from numpy.typing import NDArray

from freetrain.core.holes import taken
from freetrain.replay.logs.placing import Placed
from freetrain.replay.logs.times import iso

_GRACE_S = 86_400.0
"""A job may outlast its limit: suspended meanwhile, or as Slurm's OverTimeLimit allows."""
_Times = NDArray[np.float64]
_WEEK_S = 7 * 86_400.0
_MOMENT_S = 60.0
"""Jobs that overlap for less have the node one after the other."""
_HINT = "`sacctmgr show runawayjobs` finds such jobs and mends them."


def cut_by_limits(runs: pl.DataFrame, last_s: float) -> tuple[pl.DataFrame, list[str]]:
    """End jobs without an end at their limits if these passed more than a day before the log's end.

    Args:
        runs: columns as of a parsed file.
        last_s: when the log ends.
    """
    has_no_end, limit = pl.col("end_s").is_infinite(), pl.col("start_s") + pl.col("limit_s")
    past = limit + _GRACE_S < last_s
    # Few jobs of a large log have no end: of these alone it is asked when they passed their limits.
    gone = runs.filter(has_no_end).filter(past)
    if gone.is_empty():
        return runs, []
    note = _named(gone, "that are past their time limits count until these passed")
    end = pl.when(has_no_end & past).then(limit).otherwise(pl.col("end_s"))
    return runs.with_columns(end.alias("end_s")), [note]


def cut_by_requeues(runs: pl.DataFrame) -> tuple[pl.DataFrame, list[str]]:
    """End runs without an end where the same job begins again: it was requeued then at the latest."""
    has_no_end = pl.col("end_s").is_infinite()
    again_s = pl.col("start_s").shift(-1).over("job", order_by="start_s")
    over = has_no_end & (again_s > pl.col("start_s"))
    if not runs["end_s"].is_infinite().any() or not runs.select(over.any()).item():
        return runs, []
    gone = runs.filter(over)
    note = _named(gone, "count until they began again (requeued, as after a node failed)")
    return runs.with_columns(pl.when(over).then(again_s).otherwise(pl.col("end_s")).alias("end_s")), [note]


def cut_by_successors(placed: Placed) -> tuple[Placed, list[str]]:
    """End jobs without an end or a limit where others began, and ended, on nodes that they had for themselves.

    That they still run is believed for a week. On nodes that jobs share, nothing follows from others there: such
    jobs are named, and stay.
    """
    has_no_end = np.isinf(placed.busy.end_s)
    suspect = has_no_end & np.isinf(placed.runs["limit_s"].to_numpy())
    if not suspect.any():
        return placed, []
    beside = _rows_beside(placed, suspect)
    first_s, last_s = _next_starts_s(beside, has_no_end)
    old = suspect & (last_s >= placed.busy.start_s + _WEEK_S)
    over = old & ~_on_shared_nodes(beside, has_no_end)
    notes = [
        _named(_jobs(placed, which), what)
        for which, what in (
            (old & ~over, "count as running, though others have run on their nodes for a week"),
            (over, "on whose nodes others ran since count until these began"),
        )
        if which.any()
    ]
    return replace(placed, busy=replace(placed.busy, end_s=np.where(over, first_s, placed.busy.end_s))), notes


@dataclass(frozen=True, slots=True)
class _Rows:
    """Rows of busy times, by node and start.

    Attributes:
        node: the node.
        start_s: when it was busy from.
        end_s: until when.
        run: whose row it is.
        nodes: how many nodes the machine has.
    """

    node: NDArray[np.int32]
    start_s: _Times
    end_s: _Times
    run: NDArray[np.int32]
    nodes: int


def _next_starts_s(rows: _Rows, has_no_end: NDArray[np.bool_]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """When the first and the last job that has an end began on any of each run's nodes, after that run did.

    inf and -inf where none did.
    """
    node, start_s, run = rows.node, rows.start_s, rows.run
    ended = np.flatnonzero(~has_no_end[run])
    first_s, last_s = np.full(len(has_no_end), np.inf), np.full(len(has_no_end), -np.inf)
    if len(ended):
        first = ended[np.searchsorted(ended, np.arange(len(run)), "right").clip(max=len(ended) - 1)]
        last = ended[np.searchsorted(node[ended], node, "right") - 1]
        for found, best, keep in ((first, first_s, np.minimum), (last, last_s, np.maximum)):
            later = (node[found] == node) & (start_s[found] > start_s)
            keep.at(best, run[later], start_s[found][later])
    return first_s, last_s


def _on_shared_nodes(rows: _Rows, has_no_end: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """For each run, whether one of its nodes had two jobs at a time, both of them with an end or both without."""
    node, start_s, end_s, run = rows.node, rows.start_s, rows.end_s, rows.run
    shared = np.zeros(rows.nodes, bool)
    for kind in (has_no_end, ~has_no_end):
        of_kind = np.flatnonzero(kind[run])
        one, other = of_kind[:-1], of_kind[1:]
        beside = (node[one] == node[other]) & (start_s[other] + _MOMENT_S < end_s[one])
        shared[node[other][beside]] = True
    return np.bincount(run, weights=shared[node], minlength=len(has_no_end)) > 0


def _rows_beside(placed: Placed, suspect: NDArray[np.bool_]) -> _Rows:
    """All rows of the nodes that suspects have: of large logs these are few."""
    busy = placed.busy
    has_suspects = np.zeros(len(busy.node_names), bool)
    has_suspects[busy.node[taken(suspect, busy.interval)]] = True
    rows = np.flatnonzero(taken(has_suspects, busy.node))
    rows = rows[np.lexsort((busy.start_s[busy.interval[rows]], busy.node[rows]))]
    run = busy.interval[rows]
    return _Rows(busy.node[rows], busy.start_s[run], busy.end_s[run], run, len(busy.node_names))


def _jobs(placed: Placed, which: NDArray[np.bool_]) -> pl.DataFrame:
    """The names and starts of some runs."""
    return pl.DataFrame(
        {"job": placed.runs["job"].filter(pl.Series(which)), "start_s": placed.busy.start_s[which]}
    )


def _named(gone: pl.DataFrame, what: str) -> str:
    first = gone.sort("start_s").row(0, named=True)
    which = f"the first: job {first['job']}, started {iso(first['start_s'])}"
    return f"Jobs without an end in the log {what}: {len(gone):,} ({which}). {_HINT}"
