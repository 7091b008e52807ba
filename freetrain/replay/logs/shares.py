"""Idle parts of nodes that have jobs: CPUs, memory and GPUs that no job holds."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from freetrain.core.node_rows import order_by_node, some_nodes_at_a_time, taken
from freetrain.replay.logs.busy import BusyTimes
from freetrain.replay.logs.fitting import times_that_fit
from freetrain.replay.logs.model import IdlePart, IdleShares, TaskAsked, TaskRoom
from freetrain.replay.logs.node_sizes import NodeSizes
from freetrain.replay.logs.placing import Placed, spread_evenly

_ONE_CPU = 1 - 1e-6
"""Sums of jobs spread over several nodes are not exact."""
_MIB = 2.0**20
_Numbers = NDArray[np.float64]
_Kind = TypeVar("_Kind", np.float64, np.bool_)


def find_idle_shares(
    placed: Placed,
    sizes: NodeSizes,
    busy: BusyTimes,
    from_s: float,
    until_s: float,
    task: TaskAsked | None = None,
) -> IdleShares | None:
    """What lies idle on the nodes while they have jobs; None where the log does not say what any job holds.

    Memory and GPUs count only beside an idle CPU: without one, nobody could use them.

    Args:
        placed: the jobs on their nodes.
        sizes: what each node has, as far as that is known. Of others it is what jobs were seen to hold at once,
            which is the least that they can have if the nodes of each job are alike.
        busy: the jobs' rows, and behind them those of times in which nodes were out of service; the intervals of
            jobs come first, too.
        from_s: start of the window.
        until_s: its end.
        task: find out for how many such tasks there was room; None: that is not asked.
    """
    lasting = busy.end_s.clip(from_s, until_s) > busy.start_s.clip(from_s, until_s)
    within = taken(lasting, busy.interval)
    runs = lasting[: len(placed.count)] & (placed.count > 0)
    if np.isnan(placed.cores[within[: len(placed.cores)] if placed.cores_by_row else runs]).all():
        return None
    held = {"cpus": _Held(placed.cores, sizes.cpus, 1.0, placed.cores_by_row)}
    said = {"cpus"}
    for what, known in (("memory_bytes", sizes.memory_bytes), ("gpus", sizes.gpus)):
        if task is None and not (placed.runs[what] > 0).any():
            continue
        amount = spread_evenly(placed.runs[what], placed.count)
        if (amount[runs] > 0).any():
            said.add(what)
        if task is not None or what in said:
            held[what] = _Held(amount, known, 0.0)
    alone = placed.count == 1
    nodes = len(busy.node_names)
    found = [
        _parts_of(_steps(busy, of, rows, len(placed.count), from_s, until_s), held, alone, of, task, said)
        for of, rows in some_nodes_at_a_time(busy.node, within, nodes)
    ]
    parts = {what: _joined([one.idle[what] for one in found]) for what in said}
    return IdleShares(
        node_names=busy.node_names,
        partly_used_s=np.concatenate([one.partly_used_s for one in found]),
        cpus=parts["cpus"],
        memory_bytes=parts.get("memory_bytes"),
        gpus=parts.get("gpus"),
        gpu_types=_gpu_types(placed, nodes),
        spread=_spread(placed, alone, from_s, until_s),
        room=_joined_room([one.room for one in found if one.room is not None]),
    )


@dataclass(frozen=True, slots=True)
class _Parts:
    """What is found out of some nodes.

    Attributes:
        partly_used_s: for how long each is partly used.
        idle: what lies idle of each resource then.
        room: for how many tasks there was room; None: that is not asked.
    """

    partly_used_s: _Numbers
    idle: Mapping[str, IdlePart]
    room: TaskRoom | None


@dataclass(frozen=True, slots=True)
class _Held:
    """What jobs hold of one resource.

    Attributes:
        amount: what each job holds of each of its nodes; nan: unknown.
        known: sizes of the nodes; nan: unknown.
        least: what a job on several nodes holds of each of them at the least.
        by_row: ``amount`` is by row of the busy times: what jobs hold differs from node to node.
    """

    amount: _Numbers
    known: _Numbers
    least: float
    by_row: bool = False


@dataclass(frozen=True, slots=True)
class _Steps:
    """Stretches of time in which nothing changes on a node, of some nodes, in order of node and time.

    Attributes:
        rows: the busy times of these nodes.
        job: whose each of them is; one behind the last job's: the node is out of service.
        row: which of these begins or ends with the stretch, shape (steps,).
        sign: 1 where it begins, -1 where it ends.
        node: the node, counted from the first of these.
        first: the first stretch of each node that has any.
        at_s: when the stretch begins.
        lasts_s: how long it lasts; means nothing where a node's last row ends.
        has_jobs: whether the node has jobs, and is in service.
        jobs: number of jobs.
        nodes: number of these nodes.
    """

    rows: NDArray[np.int32]
    job: NDArray[np.int32]
    row: NDArray[np.int64]
    sign: NDArray[np.int8]
    node: NDArray[np.int32]
    first: NDArray[np.int64]
    at_s: _Numbers
    lasts_s: _Numbers
    has_jobs: NDArray[np.bool_]
    jobs: int
    nodes: int

    def of_jobs(self, given: NDArray[_Kind], by_row: bool = False) -> NDArray[_Kind]:
        """What is given by job, or by row of the busy times, at each step; 0 where a node is out of service."""
        own = given[np.minimum(self.rows if by_row else self.job, len(given) - 1)]
        own[self.job >= self.jobs] = 0
        return own[self.row]

    def held(self, amount: _Numbers) -> _Numbers:
        """What jobs hold together during each stretch, of so much by step."""
        sums: _Numbers = np.cumsum(amount * self.sign)
        return sums

    def most(self, amount: _Numbers) -> _Numbers:
        """The most of it on each node, shape (nodes,); 0 where nothing happens."""
        peak = np.zeros(self.nodes)
        if len(self.first):
            peak[self.node[self.first]] = np.maximum.reduceat(amount, self.first)
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


def _steps(
    busy: BusyTimes, nodes: slice, rows: NDArray[np.int32], jobs: int, from_s: float, until_s: float
) -> _Steps:
    """The stretches of these nodes, whose rows these are."""
    node, interval = busy.node[rows] - nodes.start, busy.interval[rows]
    at_s = np.concatenate([busy.start_s[interval], busy.end_s[interval]]).clip(from_s, until_s)
    order = order_by_node(np.tile(node, 2), at_s - from_s, until_s - from_s)
    begins, at_s = order < len(rows), at_s[order]
    row = np.where(begins, order, order - len(rows))
    sign = np.where(begins, np.int8(1), np.int8(-1))
    is_job = interval[row] < jobs
    running, closed = (np.cumsum(sign * which, dtype=np.int32) for which in (is_job, ~is_job))
    count = nodes.stop - nodes.start
    steps_of = 2 * np.bincount(node, minlength=count)
    return _Steps(
        rows,
        interval,
        row,
        sign,
        np.repeat(np.arange(count, dtype=np.int32), steps_of),
        (np.cumsum(steps_of) - steps_of)[steps_of > 0],
        at_s,
        np.diff(at_s, append=at_s[-1:]),
        (running > 0) & (closed == 0),
        jobs,
        count,
    )


def _parts_of(
    steps: _Steps,
    held: Mapping[str, _Held],
    alone: NDArray[np.bool_],
    nodes: slice,
    task: TaskAsked | None,
    said: Collection[str],
) -> _Parts:
    """What is found out of some nodes.

    Args:
        steps: when what changes.
        held: of each resource.
        alone: whether each job has one node alone, so that the amount is exact.
        nodes: which nodes they are.
        task: find out for how many such tasks there was room; None: that is not asked.
        said: the resources of which the log says what jobs held.
    """
    of_one = steps.of_jobs(alone)
    free = {what: _free(steps, one, of_one, nodes) for what, one in held.items()}
    partly = steps.has_jobs & (free["cpus"].amount >= _ONE_CPU)
    idle = {
        what: _idle_part(steps, free[what], partly, steps.has_jobs if what == "cpus" else partly) for what in said
    }
    room = None if task is None else _task_room(steps, free, partly, nodes, task, said)
    return _Parts(steps.by_node(np.where(partly, steps.lasts_s, 0.0)), idle, room)


def _free(steps: _Steps, held: _Held, alone: NDArray[np.bool_], nodes: slice) -> _Free:
    """What is free of one resource; ``alone`` is meant by step."""
    known = held.known[nodes]
    amount = steps.of_jobs(held.amount, held.by_row)
    unknown = np.isnan(amount)
    amount[unknown] = 0.0
    sure = np.where(alone, amount, np.minimum(amount, held.least))
    lasting = np.where(steps.lasts_s > 0, steps.held(sure), 0.0)
    at_least = np.maximum(steps.most(lasting), steps.most(amount))
    size = np.where(np.isnan(known), at_least, known)
    free = (size[steps.node] - steps.held(amount)).clip(min=0.0)
    if unknown.any():
        free[steps.held(unknown.astype(np.float64)) > 0.5] = np.nan
    return _Free(size, bool((np.isnan(known) & (at_least > 0)).any()), free)


def _joined(parts: Sequence[IdlePart]) -> IdlePart:
    """The same of all nodes together."""
    return IdlePart(
        np.concatenate([one.size for one in parts]),
        np.concatenate([one.idle_s for one in parts]),
        np.concatenate([one.unknown_s for one in parts]),
        any(one.is_least for one in parts),
    )


def _task_room(
    steps: _Steps,
    free: Mapping[str, _Free],
    partly: NDArray[np.bool_],
    nodes: slice,
    task: TaskAsked,
    said: Collection[str],
) -> TaskRoom:
    """For how many tasks there was room; what no job is known to hold of memory is asked for of nobody."""
    asked = {
        "cpus": (float(task.keep.cpus), float(max(task.each.cpus, 1))),
        "memory_bytes": (task.keep.memory_mb * _MIB, task.each.memory_mb * _MIB),
        "gpus": (float(task.keep.gpus), float(task.each.gpus)),
    }
    unsaid = {"memory_bytes"} - set(said)
    ignored = ("memory",) if task.each.memory_mb and unsaid else ()
    counted = [name for name, (_, each) in asked.items() if each and name not in unsaid]
    fits = times_that_fit(((free[name].amount, *asked[name]) for name in counted), len(steps.node))
    empty = times_that_fit(((free[name].size, *asked[name]) for name in counted), steps.nodes)
    until_s = np.append(steps.at_s[1:], steps.at_s[-1:])
    rows = np.flatnonzero(partly & (fits > 0) & (until_s > steps.at_s))
    node = steps.node[rows] + np.int32(nodes.start)
    sizes = np.stack([np.zeros(steps.nodes) if name in unsaid else free[name].size for name in asked], axis=1)
    return TaskRoom(task, empty, node, steps.at_s[rows], until_s[rows], fits[rows], sizes, ignored)


def _joined_room(parts: Sequence[TaskRoom]) -> TaskRoom | None:
    """The same of all nodes together; None: of none."""
    if not parts:
        return None
    return TaskRoom(
        parts[0].task,
        np.concatenate([one.on_empty for one in parts]),
        np.concatenate([one.node for one in parts]),
        np.concatenate([one.start_s for one in parts]),
        np.concatenate([one.end_s for one in parts]),
        np.concatenate([one.tasks for one in parts]),
        np.concatenate([one.sizes for one in parts]),
        parts[0].ignored,
    )


def _idle_part(steps: _Steps, free: _Free, counted: NDArray[np.bool_], expected: NDArray[np.bool_]) -> IdlePart:
    unknown = np.isnan(free.amount)
    return IdlePart(
        size=free.size,
        idle_s=steps.by_node(np.where(counted & ~unknown, free.amount, 0.0) * steps.lasts_s),
        unknown_s=steps.by_node(np.where(expected & unknown, steps.lasts_s, 0.0)),
        is_least=free.is_least,
    )


def _gpu_types(placed: Placed, nodes: int) -> tuple[str, ...]:
    """The types of the GPUs that jobs held on each node, joined by +."""
    seen: defaultdict[int, set[str]] = defaultdict(set)
    types = placed.runs["gpu_types"]
    for text in types.unique():
        if text:
            had_such = np.zeros(nodes, bool)
            had_such[placed.busy.node[np.repeat((types == text).to_numpy(), placed.count)]] = True
            for node in np.flatnonzero(had_such).tolist():
                seen[node].update(text.split(","))
    return tuple("+".join(sorted(seen[node])) if node in seen else "" for node in range(nodes))


def _spread(placed: Placed, alone: NDArray[np.bool_], from_s: float, until_s: float) -> float:
    """The part of the held CPU time that jobs on several nodes held."""
    lasts_s = placed.busy.end_s.clip(from_s, until_s) - placed.busy.start_s.clip(from_s, until_s)
    cores = np.nan_to_num(placed.cores)
    if placed.cores_by_row:
        held_s = cores * np.repeat(lasts_s, placed.count)
    else:
        held_s = np.repeat(cores * lasts_s, placed.count)
    together_s = float(held_s.sum())
    return float(held_s[np.repeat(~alone, placed.count)].sum()) / together_s if together_s > 0 else 0.0
