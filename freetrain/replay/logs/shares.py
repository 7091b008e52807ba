"""Idle parts of nodes that have jobs: CPUs, memory and GPUs that no job holds."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from freetrain.core.holes import some_nodes_at_a_time, taken
from freetrain.replay.logs.busy import BusyTimes
from freetrain.replay.logs.fitting import times_that_fit
from freetrain.replay.logs.idle_parts import IdlePart, IdleShares, TaskAsked, TaskRoom
from freetrain.replay.logs.node_sizes import NodeSizes
from freetrain.replay.logs.placing import Placed, spread_evenly
from freetrain.replay.logs.stretches import Free, Held, Numbers, Stretches, free_of, stretches_of

_ONE_CPU = 1 - 1e-6
"""Sums of jobs spread over several nodes are not exact."""
_MIB = 2.0**20


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
    held = {"cpus": Held(placed.cores, sizes.cpus, 1.0, placed.cores_by_row)}
    said = {"cpus"}
    for what, known in (("memory_bytes", sizes.memory_bytes), ("gpus", sizes.gpus)):
        if task is None and not (placed.runs[what] > 0).any():
            continue
        amount = spread_evenly(placed.runs[what], placed.count)
        if (amount[runs] > 0).any():
            said.add(what)
        if task is not None or what in said:
            held[what] = Held(amount, known, 0.0)
    alone = placed.count == 1
    nodes = len(busy.node_names)
    found = [
        _parts_of(stretches_of(busy, of, rows, len(placed.count), from_s, until_s), held, alone, of, task, said)
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

    partly_used_s: Numbers
    idle: Mapping[str, IdlePart]
    room: TaskRoom | None


def _parts_of(
    stretches: Stretches,
    held: Mapping[str, Held],
    alone: NDArray[np.bool_],
    nodes: slice,
    task: TaskAsked | None,
    said: Collection[str],
) -> _Parts:
    """What is found out of some nodes.

    Args:
        stretches: when what changes.
        held: of each resource.
        alone: whether each job has one node alone, so that the amount is exact.
        nodes: which nodes they are.
        task: find out for how many such tasks there was room; None: that is not asked.
        said: the resources of which the log says what jobs held.
    """
    of_one = stretches.of_jobs(alone)
    free = {what: free_of(stretches, one, of_one, nodes) for what, one in held.items()}
    partly = stretches.has_jobs & (free["cpus"].amount >= _ONE_CPU)
    idle = {
        what: _idle_part(stretches, free[what], partly, stretches.has_jobs if what == "cpus" else partly)
        for what in said
    }
    room = None if task is None else _task_room(stretches, free, partly, nodes, task, said)
    return _Parts(stretches.by_node(np.where(partly, stretches.lasts_s, 0.0)), idle, room)


def _joined(parts: Sequence[IdlePart]) -> IdlePart:
    """The same of all nodes together."""
    return IdlePart(
        np.concatenate([one.size for one in parts]),
        np.concatenate([one.idle_s for one in parts]),
        np.concatenate([one.unknown_s for one in parts]),
        any(one.is_least for one in parts),
    )


def _task_room(
    stretches: Stretches,
    free: Mapping[str, Free],
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
    fits = times_that_fit(((free[name].amount, *asked[name]) for name in counted), len(stretches.node))
    empty = times_that_fit(((free[name].size, *asked[name]) for name in counted), stretches.nodes)
    until_s = np.append(stretches.at_s[1:], stretches.at_s[-1:])
    rows = np.flatnonzero(partly & (fits > 0) & (until_s > stretches.at_s))
    node = stretches.node[rows] + np.int32(nodes.start)
    sizes = np.stack([np.zeros(stretches.nodes) if name in unsaid else free[name].size for name in asked], axis=1)
    return TaskRoom(task, empty, node, stretches.at_s[rows], until_s[rows], fits[rows], sizes, ignored)


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


def _idle_part(
    stretches: Stretches, free: Free, counted: NDArray[np.bool_], expected: NDArray[np.bool_]
) -> IdlePart:
    unknown = np.isnan(free.amount)
    return IdlePart(
        size=free.size,
        idle_s=stretches.by_node(np.where(counted & ~unknown, free.amount, 0.0) * stretches.lasts_s),
        unknown_s=stretches.by_node(np.where(expected & unknown, stretches.lasts_s, 0.0)),
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
        held_s = np.bincount(placed.busy.interval, cores, len(lasts_s)) * lasts_s
    else:
        held_s = cores * placed.count * lasts_s
    together_s = float(held_s.sum())
    return float(held_s[~alone].sum()) / together_s if together_s > 0 else 0.0
