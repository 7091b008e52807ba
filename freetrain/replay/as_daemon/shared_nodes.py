"""Nodes that jobs share, as a log tells them: what the site's jobs have of each, and what is left beside them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from math import ceil, inf

import numpy as np

from freetrain.core.amounts import GPU, Amount
from freetrain.core.needs import Needs
from freetrain.core.node import Node, NodeState
from freetrain.core.trainer import Trainer
from freetrain.replay.logs.idle_parts import Places
from freetrain.replay.logs.model import LoggedJobs
from freetrain.replay.node_changes import node_changes
from freetrain.replay.task_shapes import TaskShapes

_MIB = 2.0**20
_NEARLY = 1e-6
"""Sums of jobs spread over several nodes are not exact."""


class SharedNodes:
    """What the site's jobs have of each node at one instant.

    Args:
        node_names: the nodes.
        logged: the jobs, with what they held.
        places: when there was room for how many tasks.

    Attributes:
        idle: places that were there by the log, whoever has them.
        total: node → how much there is of it.
        shapes: how much of one a task of each trainer takes.
    """

    def __init__(self, node_names: tuple[str, ...], logged: LoggedJobs, places: Places) -> None:
        self._logged = logged
        self._position = {name: number for number, name in enumerate(node_names)}
        self._sizes = places.sizes
        self.total = {name: _amount(*places.sizes[row].tolist()) for row, name in enumerate(node_names)}
        self.shapes = TaskShapes(places.task.each, bool((places.sizes[:, 1] > 0).any()))
        self._jobs: dict[str, dict[int, Amount | None]] = {name: {} for name in node_names}
        self._used = dict.fromkeys(node_names, Amount())
        self._shown: dict[str, tuple[Node, Amount, Node]] = {}
        self._changes = node_changes(places.holes)
        self._change = next(self._changes, None)
        self.idle: set[str] = set()

    @property
    def next_s(self) -> float:
        """When places come or go next."""
        return self._change.at_s if self._change else inf

    def asks(self, row: int) -> Amount | None:
        """What a job has of each of its nodes; None: the log does not say, and it counts as all of it."""
        held, nodes = self._logged.held, self._logged.nodes_of(row)
        assert held is not None
        matters = (self._sizes[nodes] > 0).any(axis=0)
        if np.isnan(held[row][matters]).any():
            return None
        return _amount(*(ceil(amount - _NEARLY) for amount in np.nan_to_num(held[row]).tolist()))

    def needs_of_task(self, besides: Needs, trainer: Trainer) -> Needs:
        """What each task of a trainer asks of its node, and what its trainer asks for besides."""
        task = self.shapes.of(trainer)
        return replace(
            besides, in_part=True, is_whole=False, cpus=task.cpus, memory_mb=task.memory_mb, gres=task.gres
        )

    def begin(self, row: int, nodes: Iterable[str], part: Amount | None) -> None:
        """A job starts on these nodes."""
        for name in nodes:
            self._jobs[name][row] = part
            self._add_up(name)

    def end(self, row: int, nodes: Iterable[str]) -> None:
        """A job ends, if it has begun."""
        for name in nodes:
            if row in self._jobs[name]:
                del self._jobs[name][row]
                self._add_up(name)

    def advance(self, now_s: float) -> None:
        """Take in which places come and go until now."""
        while self._change is not None and self._change.at_s <= now_s:
            self.idle.difference_update(self._change.left)
            self.idle.update(self._change.joined)
            self._change = next(self._changes, None)

    def left_of(self, node: str) -> Amount:
        """What the site's jobs leave of a node."""
        return self.total[node].without(self._used[node])

    def shown(self, node: Node, lent: Amount) -> Node:
        """The node as Slurm would have shown it.

        Args:
            node: idle, or busy where jobs have it or it is out of service.
            lent: what the tasks of trainers have that run there.
        """
        used = self._used[node.name] + lent
        before = self._shown.get(node.name)
        if before is None or before[0] is not node or before[1] != used:
            total = self.total[node.name]
            is_out = node.state is NodeState.BUSY and not self._jobs[node.name]
            shown = replace(
                node, state=NodeState.DOWN if is_out else node.state, said="DOWN" if is_out else node.said,
                cpus=total.cpus, memory_mb=total.memory_mb, gres=total.gres, used=used,
            )  # fmt: skip
            self._shown[node.name] = before = (node, used, shown)
        return before[2]

    def _add_up(self, name: str) -> None:
        parts = self._jobs[name].values()
        total = self.total[name]
        used = total if any(part is None for part in parts) else sum((one for one in parts if one), Amount())
        self._used[name] = total.without(total.without(used))  # no more than there is
        self._shown.pop(name, None)


def _amount(cpus: float, memory_bytes: float, gpus: float) -> Amount:
    counts = int(cpus + _NEARLY), int(memory_bytes / _MIB + _NEARLY), int(gpus + _NEARLY)
    return Amount(counts[0], counts[1], ((GPU, counts[2]),) if counts[2] else ())
