"""Idle parts of nodes that have jobs: CPUs, memory and GPUs that no job holds."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from freetrain.replay.logs.model import IdlePart, IdleShares
from freetrain.replay.logs.node_events import BusyTimes
from freetrain.replay.logs.node_sizes import NodeSizes
from freetrain.replay.logs.placing import Placed, spread_evenly

_ONE_CPU = 1 - 1e-6
"""Sums of jobs spread over several nodes are not exact."""
_Numbers = NDArray[np.float64]


def find_idle_shares(
    placed: Placed, sizes: NodeSizes, busy: BusyTimes, from_s: float, until_s: float
) -> IdleShares | None:
    """What lies idle on the nodes while they have jobs; None where the log does not say what any job holds.

    Memory and GPUs count only beside an idle CPU: without one, nobody could use them.

    Args:
        placed: the jobs on their nodes.
        sizes: what each node has, as far as that is known. Of others it is what jobs were seen to hold at once,
            which is the least that they can have if the nodes of each job are alike.
        busy: the jobs' rows, and behind them those of times in which nodes were out of service.
        from_s: start of the window.
        until_s: its end.
    """
    steps = _steps(busy, len(placed.busy.node), from_s, until_s)
    if steps is None or np.isnan(placed.cores[steps.job_rows]).all():
        return None
    alone = np.repeat(placed.count == 1, placed.count)
    free_cpus = _free(steps, placed.cores, alone, sizes.cpus, 1.0)
    partly = steps.has_jobs & (free_cpus.amount >= _ONE_CPU)
    memory = spread_evenly(placed.runs["memory_bytes"], placed.count)
    gpus = spread_evenly(placed.runs["gpus"], placed.count)
    return IdleShares(
        node_names=busy.node_names,
        partly_used_s=steps.by_node(np.where(partly, steps.lasts_s, 0.0)),
        cpus=_idle_part(steps, free_cpus, partly, steps.has_jobs),
        memory_bytes=_part_beside(steps, memory, alone, sizes.memory_bytes, partly),
        gpus=_part_beside(steps, gpus, alone, sizes.gpus, partly),
        gpu_types=_gpu_types(placed, steps),
        spread=_spread(placed, alone, from_s, until_s),
    )


@dataclass(frozen=True, slots=True)
class _Steps:
    """Stretches of time in which nothing changes on a node, in order of node and time.

    Attributes:
        row: the row of the busy times that begins or ends with the stretch, shape (steps,).
        sign: 1 where it begins, -1 where it ends.
        node: the node.
        lasts_s: how long the stretch lasts; means nothing where a node's last row ends.
        has_jobs: whether the node has jobs, and is in service.
        jobs: number of rows that are jobs'; those behind them are of nodes out of service.
        nodes: number of nodes.
    """

    row: NDArray[np.int64]
    sign: NDArray[np.int8]
    node: NDArray[np.int32]
    lasts_s: _Numbers
    has_jobs: NDArray[np.bool_]
    jobs: int
    nodes: int

    @property
    def job_rows(self) -> NDArray[np.int64]:
        """The rows of jobs, each once."""
        return self.row[(self.sign > 0) & (self.row < self.jobs)]

    def held(self, amount: _Numbers) -> _Numbers:
        """What jobs hold together during each stretch, of so much by row."""
        sums: _Numbers = np.cumsum(self.of_rows(amount) * self.sign)
        return sums

    def of_rows(self, amount: _Numbers) -> _Numbers:
        """What the job of each step holds; 0 where a node is out of service."""
        given: _Numbers = np.append(amount, 0.0)[np.minimum(self.row, self.jobs)]
        return given

    def most(self, amount: _Numbers) -> _Numbers:
        """The most of it on each node, shape (nodes,); 0 where nothing happens."""
        first = np.flatnonzero(np.append(True, self.node[1:] != self.node[:-1]))
        peak = np.zeros(self.nodes)
        peak[self.node[first]] = np.maximum.reduceat(amount, first)
        return peak

    def by_node(self, seconds: _Numbers) -> _Numbers:
        """Sums by node, shape (nodes,)."""
        sums: _Numbers = np.bincount(self.node, seconds, self.nodes).astype(np.float64)
        return sums


@dataclass(frozen=True, slots=True)
class _Free:
    """What is free: the nodes' sizes, whether one of them is a lower bound, and what no job holds, by step.

    ``amount`` is nan where a job is there of which the log does not say what it holds.
    """

    size: _Numbers
    is_least: bool
    amount: _Numbers


def _steps(busy: BusyTimes, jobs: int, from_s: float, until_s: float) -> _Steps | None:
    start_s, end_s = busy.start_s.clip(from_s, until_s), busy.end_s.clip(from_s, until_s)
    within = np.flatnonzero(end_s > start_s)
    if not len(within):
        return None
    at_s = np.concatenate([start_s[within], end_s[within]])
    node = np.tile(busy.node[within], 2)
    # One number to sort by takes a quarter of the time of two; on the largest machines it is exact to 0.01 s.
    order = np.argsort(node * (until_s - from_s + 1.0) + (at_s - from_s))
    row, node, at_s = np.tile(within, 2)[order], node[order], at_s[order]
    sign = np.where(order < len(within), 1, -1).astype(np.int8)
    lasts_s = np.append(np.diff(at_s), 0.0)
    is_job = row < jobs
    running, closed = np.cumsum(sign * is_job), np.cumsum(sign * ~is_job)
    return _Steps(row, sign, node, lasts_s, (running > 0) & (closed == 0), jobs, len(busy.node_names))


def _free(steps: _Steps, amount: _Numbers, alone: NDArray[np.bool_], known: _Numbers, least: float) -> _Free:
    """What is free of one resource.

    Args:
        steps: when what changes.
        amount: what the job of each row holds; nan: unknown.
        alone: whether the row's node is its job's only one, so that the amount is exact.
        known: sizes of the nodes; nan: unknown.
        least: what a job on several nodes holds of each of them at the least.
    """
    unknown = np.isnan(amount)
    amount = np.where(unknown, 0.0, amount)
    sure = np.where(alone, amount, np.minimum(amount, least))
    lasting = np.where(steps.lasts_s > 0, steps.held(sure), 0.0)
    at_least = np.maximum(steps.most(lasting), steps.most(steps.of_rows(amount)))
    size = np.where(np.isnan(known), at_least, known)
    free = (size[steps.node] - steps.held(amount)).clip(min=0.0)
    if unknown.any():
        free[steps.held(unknown.astype(np.float64)) > 0.5] = np.nan
    return _Free(size, bool((np.isnan(known) & (at_least > 0)).any()), free)


def _part_beside(
    steps: _Steps, amount: _Numbers, alone: NDArray[np.bool_], known: _Numbers, partly: NDArray[np.bool_]
) -> IdlePart | None:
    """The idle part of another resource while the node is partly used; None where no job is known to hold any."""
    if not (amount[steps.job_rows] > 0).any():
        return None
    return _idle_part(steps, _free(steps, amount, alone, known, 0.0), partly, partly)


def _idle_part(steps: _Steps, free: _Free, counted: NDArray[np.bool_], expected: NDArray[np.bool_]) -> IdlePart:
    unknown = np.isnan(free.amount)
    return IdlePart(
        size=free.size,
        idle_s=steps.by_node(np.where(counted & ~unknown, free.amount, 0.0) * steps.lasts_s),
        unknown_s=steps.by_node(np.where(expected & unknown, steps.lasts_s, 0.0)),
        is_least=free.is_least,
    )


def _gpu_types(placed: Placed, steps: _Steps) -> tuple[str, ...]:
    """The types of the GPUs that jobs held on each node, joined by +."""
    seen: defaultdict[int, set[str]] = defaultdict(set)
    types = placed.runs["gpu_types"]
    for text in types.unique():
        if text:
            rows = np.repeat((types == text).to_numpy(), placed.count)
            for node in np.unique(placed.busy.node[rows]).tolist():
                seen[node].update(text.split(","))
    return tuple("+".join(sorted(seen[node])) if node in seen else "" for node in range(steps.nodes))


def _spread(placed: Placed, alone: NDArray[np.bool_], from_s: float, until_s: float) -> float:
    """The part of the held CPU time that jobs on several nodes held."""
    lasts_s = placed.busy.end_s.clip(from_s, until_s) - placed.busy.start_s.clip(from_s, until_s)
    held_s = np.nan_to_num(placed.cores) * lasts_s
    together_s = float(held_s.sum())
    return float(held_s[~alone].sum()) / together_s if together_s > 0 else 0.0
