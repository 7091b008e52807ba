"""The jobs of a log, one by one: what a daemon would have seen of them."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from freetrain.core.holes import Holes
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
    runs = placed.runs
    start_s, end_s = runs["start_s"].to_numpy(), runs["end_s"].to_numpy()
    lists = _on_nodes_looked_at(placed, holes)
    inside = (np.diff(lists.begin) > 0) & (end_s > holes.from_s) & (start_s < holes.until_s)
    rows = np.flatnonzero(inside)
    rows = rows[np.argsort(start_s[rows], kind="stable")]
    node, count = gathered(lists, rows)
    submit_s = runs["submit_s"].fill_null(runs["start_s"]).fill_nan(None).fill_null(runs["start_s"]).to_numpy()
    partition = runs["partition"].gather(rows).replace("", "main")
    names = partition.unique().sort()
    code = partition.replace_strict(names, np.arange(len(names)), return_dtype=pl.Int32)
    return LoggedJobs(
        ids=runs["job"].gather(rows),
        partition_names=tuple(names),
        partition=code.to_numpy(),
        submit_s=np.minimum(submit_s, start_s)[rows],
        start_s=start_s[rows],
        end_s=end_s[rows],
        limit_s=runs["limit_s"].to_numpy()[rows],
        begin=np.concatenate([np.zeros(1, np.int64), np.cumsum(count)]),
        node=node,
        held=_held(placed)[rows] if with_held else None,
    )


def _held(placed: Placed) -> NDArray[np.float64]:
    """CPUs, bytes of memory and GPUs that each run had of each of its nodes; where they differ, the most."""
    first = np.cumsum(placed.count) - placed.count
    cores = np.full(len(placed.runs), np.nan)
    some = placed.count > 0
    if some.any():
        cores[some] = np.maximum.reduceat(placed.cores, first[some])
    amounts = (
        placed.runs[name].cast(pl.Float64).fill_null(np.nan).to_numpy() for name in ("memory_bytes", "gpus")
    )
    return np.stack([cores, *(amount / placed.count.clip(min=1) for amount in amounts)], axis=1)


def _on_nodes_looked_at(placed: Placed, holes: Holes) -> NodeLists:
    """Each run's nodes by their position among the holes' nodes; others are left out."""
    position = {name: number for number, name in enumerate(holes.node_names)}
    renumbered = np.array([position.get(name, -1) for name in placed.busy.node_names], dtype=np.int32)
    node = renumbered[placed.busy.node]
    looked_at = node >= 0
    # How many of them there are up to the end of each run.
    upto = np.concatenate([np.zeros(1, np.int64), np.cumsum(looked_at)])
    ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(placed.count)])
    return NodeLists(upto[ends], node[looked_at], {})
