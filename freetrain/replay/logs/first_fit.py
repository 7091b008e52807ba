"""First-fit packing: which nodes jobs may have had, where the log says only how many."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_Nodes = NDArray[np.int32]
_Taken = tuple[_Nodes, NDArray[np.int32]]


@dataclass(frozen=True, slots=True)
class Group:
    """Nodes that some jobs may run on.

    Attributes:
        position: their positions in the machine, in the order they are given out.
        cores: cores of each.
        shared: jobs take cores; otherwise whole nodes.
    """

    position: _Nodes
    cores: NDArray[np.int32]
    shared: bool

    @property
    def capacity(self) -> int:
        """What a job can need at most: cores where nodes are shared, otherwise nodes."""
        return int(self.cores.sum()) if self.shared else len(self.position)


@dataclass(frozen=True, slots=True)
class Packed:
    """Where jobs were put.

    Attributes:
        node: nodes of all jobs, job after job.
        count: nodes of each job, shape (jobs,).
        cores: what the job has of each of these nodes, as many rows as ``node``.
        missing_nodes: nodes (or shares of one) for which there was no room, shape (jobs,).
    """

    node: _Nodes
    count: NDArray[np.int64]
    cores: NDArray[np.int32]
    missing_nodes: NDArray[np.float64]


def pack(
    start_s: NDArray[np.float64],
    end_s: NDArray[np.float64],
    need: NDArray[np.int64],
    group: NDArray[np.int64],
    groups: Sequence[Group],
    cores: NDArray[np.int32],
) -> Packed:
    """Put jobs on nodes first-fit, in the order of their starts, on the lowest free nodes.

    A job that ends when another starts makes room for it. Where the machine is full, a job gets what is left.

    Args:
        start_s: start of each job.
        end_s: its end, after its start.
        need: nodes it needs, or cores where its group's nodes are shared.
        group: its group, by position.
        groups: the groups.
        cores: cores of each node of the machine.
    """
    free = cores.copy()
    running: list[tuple[float, int]] = []
    taken: dict[int, _Taken] = {}
    nodes: list[_Nodes] = [np.empty(0, np.int32)] * len(start_s)
    held = nodes.copy()
    missing = np.zeros(len(start_s))
    for job in np.argsort(start_s, kind="stable").tolist():
        while running and running[0][0] <= start_s[job]:
            node, got = taken.pop(heapq.heappop(running)[1])
            free[node] += got
        where = groups[group[job]]
        node, got = (_take_cores if where.shared else _take_nodes)(free, where, int(need[job]))
        free[node] -= got
        taken[job] = node, got
        nodes[job], held[job] = node, got
        heapq.heappush(running, (float(end_s[job]), job))
        missing[job] = _missing_nodes(where, int(need[job]), got)
    count = np.array([len(node) for node in nodes], np.int64)
    return Packed(_joined(nodes), count, _joined(held), missing)


def _joined(several: list[_Nodes]) -> _Nodes:
    return np.concatenate(several) if several else np.empty(0, np.int32)


def peak_in_use(start_s: NDArray[np.float64], end_s: NDArray[np.float64], need: NDArray[np.int64]) -> int:
    """The most nodes (or cores) in use at once."""
    time_s = np.concatenate([end_s, start_s])
    change = np.concatenate([-need, need])
    # Ends come first in the arrays, and a stable sort keeps them before starts at the same time.
    return int(np.cumsum(change[np.argsort(time_s, kind="stable")]).max(initial=0))


def _take_nodes(free: NDArray[np.int32], group: Group, need: int) -> _Taken:
    idle = np.flatnonzero(free[group.position] == group.cores)[:need]
    return group.position[idle], group.cores[idle]


def _take_cores(free: NDArray[np.int32], group: Group, need: int) -> _Taken:
    """Whole idle nodes as far as the job fills them, and the lowest node with room for the rest."""
    room = free[group.position]
    idle = np.flatnonzero(room == group.cores)
    filled = np.cumsum(group.cores[idle])
    whole = idle[: int(np.searchsorted(filled, need, "right"))]
    rest = need - int(group.cores[whole].sum())
    if not rest:
        return group.position[whole], group.cores[whole]
    room[whole] = 0
    fitting = np.flatnonzero(room >= rest)[:1]
    if not len(fitting):
        return _scatter(free, group, need)
    got = np.append(group.cores[whole], np.int32(rest))
    return group.position[np.append(whole, fitting)], got


def _scatter(free: NDArray[np.int32], group: Group, need: int) -> _Taken:
    """Free cores wherever they are, lowest nodes first: all that is left on a nearly full machine."""
    room = free[group.position]
    open_nodes = np.flatnonzero(room)
    so_far = np.cumsum(room[open_nodes])
    count = int(np.searchsorted(so_far, need)) + 1
    used = open_nodes[:count]
    got = room[used]
    if len(used) and so_far[len(used) - 1] > need:
        got[-1] -= so_far[len(used) - 1] - need
    return group.position[used], got


def _missing_nodes(group: Group, need: int, got: NDArray[np.int32]) -> float:
    if group.shared:
        return float(need - got.sum()) / float(group.cores[0])
    return float(need - len(got))
