"""The jobs of a log, one by one: what a daemon would have seen of them."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from freetrain.core.holes import Holes, taken
from freetrain.replay.logs.distinct import texts_and_numbers
from freetrain.replay.logs.model import LoggedJobs
from freetrain.replay.logs.nodelists import NodeLists, gathered
from freetrain.replay.logs.placing import Placed


def logged_jobs(placed: Placed, holes: Holes, with_held: bool = False) -> LoggedJobs:
    """Those that ran within the window, on the nodes that are looked at.

    Args:
        placed: all jobs.
        holes: of these nodes.
        with_held: also what each had of each of its nodes.
    """
    runs, start_s, end_s = placed.runs, placed.busy.start_s, placed.busy.end_s
    lists = _on_nodes_looked_at(placed, holes)
    inside = (np.diff(lists.begin) > 0) & (end_s > holes.from_s) & (start_s < holes.until_s)
    rows = np.flatnonzero(inside)
    rows = rows[np.argsort(start_s[rows], kind="stable")]
    node, count = gathered(lists, rows)
    submit_s = runs["submit_s"].to_numpy()
    names, partition = _partitions(runs["partition"], rows)
    return LoggedJobs(
        ids=runs["job"].gather(rows),
        partition_names=names,
        partition=partition,
        submit_s=np.fmin(submit_s, start_s)[rows],
        start_s=start_s[rows],
        end_s=end_s[rows],
        limit_s=runs["limit_s"].to_numpy()[rows],
        begin=np.concatenate([np.zeros(1, np.int64), np.cumsum(count)]),
        node=node,
        held=_held(placed)[rows] if with_held else None,
    )


def _held(placed: Placed) -> NDArray[np.float64]:
    """CPUs, bytes of memory and GPUs that each run had of each of its nodes; where they differ, the most."""
    cores = placed.cores
    if placed.cores_by_row:
        first, some = np.cumsum(placed.count) - placed.count, placed.count > 0
        cores = np.full(len(placed.runs), np.nan)
        if some.any():
            cores[some] = np.maximum.reduceat(placed.cores, first[some])
    amounts = (
        placed.runs[name].cast(pl.Float64).fill_null(np.nan).to_numpy() for name in ("memory_bytes", "gpus")
    )
    return np.stack([cores, *(amount / placed.count.clip(min=1) for amount in amounts)], axis=1)


def _partitions(partition: pl.Series, rows: NDArray[np.intp]) -> tuple[tuple[str, ...], NDArray[np.int32]]:
    """The partitions of some rows, and which of these each row's is."""
    texts, number = texts_and_numbers(partition)
    known, number = [name or "main" for name in texts], number[rows]
    names = sorted({known[one] for one in np.unique(number).tolist()})
    place = {name: at for at, name in enumerate(names)}
    return tuple(names), np.array([place.get(name, -1) for name in known], np.int32)[number]


def _on_nodes_looked_at(placed: Placed, holes: Holes) -> NodeLists:
    """Each run's nodes by their position among the holes' nodes; others are left out."""
    ends = np.append(0, np.cumsum(placed.count))
    if holes.node_names == placed.busy.node_names:
        return NodeLists(ends, placed.busy.node, {})
    position = {name: number for number, name in enumerate(holes.node_names)}
    renumbered = np.array([position.get(name, -1) for name in placed.busy.node_names], dtype=np.int32)
    node = taken(renumbered, placed.busy.node)
    looked_at = node >= 0
    # How many of them there are up to the end of each run.
    upto = np.append(np.int32(0), np.cumsum(looked_at, dtype=np.int32))
    return NodeLists(upto[ends].astype(np.int64), node[looked_at], {})
