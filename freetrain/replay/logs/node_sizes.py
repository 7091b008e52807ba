"""How much each node has, as a machine file tells it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from freetrain.replay.logs.machine import Machine, Pool

_UNKNOWN = Pool("", 0, 0, 0)


@dataclass(frozen=True, slots=True)
class NodeSizes:
    """What each node has, shape (nodes,); nan: nobody said.

    Attributes:
        cpus: CPUs.
        memory_bytes: memory.
        gpus: GPUs.
    """

    cpus: NDArray[np.float64]
    memory_bytes: NDArray[np.float64]
    gpus: NDArray[np.float64]


def node_sizes(machine: Machine | None, node_names: tuple[str, ...]) -> NodeSizes:
    """The sizes of a log's nodes, by their names; of a machine of one pool all are alike, whatever their names.

    A pool with one core or without GPUs is one of which these were left out: the file cannot tell the two apart.
    """
    pools = machine.pools if machine else ()
    pool_of = {
        name: pool for pool in pools for name in (machine.node_names[pool.begin : pool.end] if machine else ())
    }
    otherwise = pools[0] if len(pools) == 1 else _UNKNOWN
    found = [pool_of.get(name, otherwise) for name in node_names]
    return NodeSizes(
        np.array([pool.cores if pool.cores > 1 else np.nan for pool in found], np.float64),
        np.array([pool.memory_bytes or np.nan for pool in found], np.float64),
        np.array([pool.gpus or np.nan for pool in found], np.float64),
    )
