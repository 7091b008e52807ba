"""The jobs of a log, one by one: what a daemon would have seen of them."""

from __future__ import annotations

import numpy as np

from freetrain.core.holes import Holes
from freetrain.replay.logs.model import LoggedJobs
from freetrain.replay.logs.placing import Placed


def logged_jobs(placed: Placed, holes: Holes) -> LoggedJobs:
    """Those that ran within the window, on the nodes that are looked at."""
    runs = placed.runs
    start_s, end_s = runs["start_s"].to_numpy(), runs["end_s"].to_numpy()
    position = {name: number for number, name in enumerate(holes.node_names)}
    renumbered = np.array([position.get(name, -1) for name in placed.busy.node_names], dtype=np.int32)
    on_nodes = np.split(renumbered[placed.busy.node], np.cumsum(placed.count)[:-1])
    kept = [nodes[nodes >= 0] for nodes in on_nodes]
    rows = [
        row
        for row in np.argsort(start_s, kind="stable").tolist()
        if len(kept[row]) and end_s[row] > holes.from_s and start_s[row] < holes.until_s
    ]
    submit_s = runs["submit_s"].fill_null(runs["start_s"]).fill_nan(None).fill_null(runs["start_s"]).to_numpy()
    ids, partitions = runs["job"].to_list(), runs["partition"].to_list()
    return LoggedJobs(
        ids=tuple(ids[row] for row in rows),
        partitions=tuple(partitions[row] or "main" for row in rows),
        submit_s=np.minimum(submit_s, start_s)[rows],
        start_s=start_s[rows],
        end_s=end_s[rows],
        limit_s=runs["limit_s"].to_numpy()[rows],
        nodes=tuple(kept[row] for row in rows),
    )
