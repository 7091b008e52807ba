"""Which nodes belong together: by partition, by kind."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from freetrain.replay.logs.model import LoggedJobs, SiteLog


def nodes_by_partition(logged: LoggedJobs) -> Iterator[tuple[str, NDArray[np.intp]]]:
    """The nodes on which each partition's jobs ran."""
    seen: defaultdict[str, list[NDArray[np.int32]]] = defaultdict(list)
    for name, nodes in zip(logged.partitions, logged.nodes, strict=True):
        seen[name].append(nodes)
    for name, several in seen.items():
        yield name, np.unique(np.concatenate(several)).astype(np.intp)


def nodes_by_kind(log: SiteLog) -> Iterator[tuple[str, NDArray[np.intp]]]:
    """The nodes of each kind, among those that are looked at."""
    position = {name: number for number, name in enumerate(log.holes.node_names)}
    for kind in log.kinds:
        nodes = [position[name] for name in kind.nodes if name in position]
        if nodes:
            yield kind.name, np.array(nodes, np.intp)
