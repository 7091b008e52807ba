"""Room for tasks: how many of one kind would have fit on each node, and the places that this comes to."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from freetrain.core.fragment import new_place, node_of
from freetrain.core.holes import Holes, seconds_within, sorted_holes
from freetrain.replay.logs.idle_parts import Places, TaskRoom

_Numbers = NDArray[np.float64]
_WHOLE = 1e-6
"""Sums of jobs spread over several nodes are not exact."""


def times_that_fit(parts: Iterable[tuple[_Numbers, float, float]], shape: int) -> NDArray[np.int64]:
    """How many tasks fit at once, the scarcest of what they ask for deciding, shape (shape,).

    Args:
        parts: of each resource that a task asks for: what is free of it, with nan where that is unknown, what is
            kept back of each node, and what a task takes.
        shape: how many numbers there are.
    """
    fits = np.full(shape, np.inf)
    for free, kept, each in parts:
        fits = np.minimum(fits, np.floor((np.nan_to_num(free) - kept) / each + _WHOLE))
    return np.where(np.isfinite(fits), fits, 0.0).clip(min=0.0).astype(np.int64)


def find_places(room: TaskRoom, holes: Holes) -> Places:
    """When there was room for each task, beside jobs and on nodes without any.

    Args:
        room: for how many there is beside jobs, and on a node that has none.
        holes: when nodes have none.
    """
    stretches = _stretches(room, holes)
    most = np.zeros(len(holes.node_names), np.int64)
    np.maximum.at(most, stretches.node, stretches.tasks)
    numbers = range(1, int(most.max(initial=0)) + 1)
    found = [stretches.without_break(number, room.task.shortest_s) for number in numbers]
    node = np.concatenate([np.zeros(0, np.int32), *(its.node for its in found)])
    start_s = np.concatenate([np.zeros(0), *(its.start_s for its in found)])
    end_s = np.concatenate([np.zeros(0), *(its.end_s for its in found)])
    number = np.concatenate([np.zeros(0, np.int64), *(its.tasks for its in found)])
    names = tuple(
        new_place(name, place + 1)
        for name, count in zip(holes.node_names, most.tolist(), strict=True)
        for place in range(count)
    )
    kind_of = {name: kind for name in names if (kind := holes.kind_of.get(node_of(name)))}
    place = ((np.cumsum(most) - most)[node] + number - 1).astype(np.int32)
    its_holes = sorted_holes(names, place, start_s, end_s, holes.from_s, holes.until_s)
    idle_s = seconds_within(holes, node, start_s, end_s)
    return Places(
        room.task,
        replace(its_holes, kind_of=kind_of, in_parts=True),
        np.repeat(np.arange(len(most), dtype=np.int32), most),
        np.bincount(node, end_s - start_s - idle_s, len(most)).astype(np.float64),
        np.bincount(node, idle_s, len(most)).astype(np.float64),
        room.sizes,
    )


@dataclass(frozen=True, slots=True)
class _Stretches:
    """Stretches of time in which at least one task fits on a node, in order of node and time.

    Attributes:
        node: the node, by position, shape (stretches,).
        start_s: when each begins.
        end_s: when it ends.
        tasks: how many tasks fit.
    """

    node: NDArray[np.int32]
    start_s: _Numbers
    end_s: _Numbers
    tasks: NDArray[np.int64]

    def without_break(self, number: int, shortest_s: float) -> _Stretches:
        """When so many tasks fit, or more, without a break, for so long at least."""
        there = self.tasks >= number
        node, start_s, end_s = self.node[there], self.start_s[there], self.end_s[there]
        begins = np.ones(len(node), bool)
        begins[1:] = (node[1:] != node[:-1]) | (start_s[1:] > end_s[:-1])
        first = np.flatnonzero(begins)
        node, start_s, end_s = node[first], start_s[first], end_s[np.append(first[1:], len(begins)) - 1]
        long = end_s - start_s >= shortest_s
        return _Stretches(node[long], start_s[long], end_s[long], np.full(int(long.sum()), number))


def _stretches(room: TaskRoom, holes: Holes) -> _Stretches:
    """Beside jobs, and on nodes without any."""
    node, tasks = np.concatenate([room.node, holes.node]), np.concatenate([room.tasks, room.on_empty[holes.node]])
    start_s, end_s = np.concatenate([room.start_s, holes.start_s]), np.concatenate([room.end_s, holes.end_s])
    order = np.lexsort((start_s, node))
    order = order[tasks[order] > 0]
    return _Stretches(node[order].astype(np.int32), start_s[order], end_s[order], tasks[order])
