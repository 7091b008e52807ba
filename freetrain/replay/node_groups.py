"""Which nodes belong together: by partition, by kind."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from freetrain.replay.logs.model import LoggedJobs, SiteLog


def nodes_by_partition(logged: LoggedJobs) -> Iterator[tuple[str, NDArray[np.intp]]]:
    """The nodes on which each partition's jobs ran."""
    of_row = np.repeat(logged.partition, np.diff(logged.begin))
    for number, name in enumerate(logged.partition_names):
        yield name, np.unique(logged.node[of_row == number]).astype(np.intp)


def nodes_by_kind(log: SiteLog) -> Iterator[tuple[str, NDArray[np.intp]]]:
    """The nodes of each kind, among those that are looked at."""
    position = {name: number for number, name in enumerate(log.holes.node_names)}
    for kind in log.kinds:
        nodes = [position[name] for name in kind.nodes if name in position]
        if nodes:
            yield kind.name, np.array(nodes, np.intp)
