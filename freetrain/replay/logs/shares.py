"""Idle parts of nodes that have jobs: CPUs, memory and GPUs that no job holds, and room for tasks there.

1. The rows of busy times become stretches, in which nothing changes on a node.
2. In each stretch, what jobs hold of a resource is subtracted from what the node has: what is free.
3. Where a CPU is free, idle parts are added up by node, and tasks are counted that would have fit.
4. Room for tasks becomes places, holes for one task each, on nodes with jobs and without.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
import polars as pl
from numpy.typing import NDArray

from freetrain.core.amounts import Amount
from freetrain.core.holes import (
    SECONDS_PER_HOUR,
    Holes,
    order_by_node,
    seconds_within,
    some_nodes_at_a_time,
    sorted_holes,
    taken,
)
from freetrain.core.place import new_place, node_of
from freetrain.core.throughput import Floats
from freetrain.replay.logs.busy import BusyTimes
from freetrain.replay.logs.machine import NodeSizes
from freetrain.replay.logs.model import IdlePart, IdleShares, TaskPlaces, TaskRequest, TaskRoom
from freetrain.replay.logs.placing import PlacedJobs, nodes_used_whole, spread_evenly

_ScalarT = TypeVar("_ScalarT", np.float64, np.bool_)
_Part = TypeVar("_Part", IdlePart, TaskRoom)
_INEXACT = 1e-6
"""Tolerance: sums of jobs spread over several nodes are off by so much at most."""
_MIB = 2.0**20
_WORTH_SAYING = 0.005


@dataclass(frozen=True, slots=True)
class HeldAmount:
    """Amounts of one resource that jobs hold.

    Attributes:
        amount: amount that each job holds of each of its nodes; nan: unknown.
        least: least that a job on several nodes holds of each of them.
        by_row: whether ``amount`` is by row of the busy times: what jobs hold differs from node to node.
    """

    amount: Floats
    known: Floats
    least: float
    by_row: bool = False


@dataclass(frozen=True, slots=True)
class Stretches:
    """Stretches of time in which nothing changes on a node, of some nodes, in order of node and time.

    Attributes:
        job: number of each row's job; one behind the last job's: the node is out of service.
        row: position of the row that begins or ends with the stretch, shape (stretches,).
        sign: 1 where it begins, -1 where it ends.
        first: the first stretch of each node that has any.
        lasts_s: seconds that it lasts; they mean nothing where a node's last row ends.
        has_jobs: whether the node has jobs, and is in service.
    """

    rows: NDArray[np.int32]
    job: NDArray[np.int32]
    row: NDArray[np.int64]
    sign: NDArray[np.int8]
    node: NDArray[np.int32]
    first: NDArray[np.int64]
    at_s: Floats
    lasts_s: Floats
    has_jobs: NDArray[np.bool_]
    jobs: int
    nodes: int

    def of_jobs(self, given: NDArray[_ScalarT], by_row: bool = False) -> NDArray[_ScalarT]:
        """Values by stretch of what is given by job, or by row of the busy times; 0 for rows of outages."""
        own = given[np.minimum(self.rows if by_row else self.job, len(given) - 1)]
        own[self.job >= self.jobs] = 0
        return own[self.row]

    def held(self, amount: Floats) -> Floats:
        """Sums over all jobs of a node during each stretch; ``amount``: of the job that begins or ends with it."""
        sums: Floats = np.cumsum(amount * self.sign)
        return sums

    def by_node(self, values: Floats, added_up: np.ufunc = np.add) -> Floats:
        """Sums by node (``np.maximum``: the most), shape (nodes,); 0 where nothing happens."""
        found = np.zeros(self.nodes)
        if len(self.first):
            found[self.node[self.first]] = added_up.reduceat(values, self.first)
        return found


@dataclass(frozen=True, slots=True)
class FreeAmount:
    """Free amounts: the nodes' sizes, whether one is a lower bound, and what no job holds, by stretch.

    ``amount`` is nan where a job is there of which the log does not say what it holds.
    """

    size: Floats
    is_least: bool
    amount: Floats


def stretches_of(busy: BusyTimes, nodes: slice, rows: NDArray[np.int32], jobs: int, window: Holes) -> Stretches:
    """The stretches of these nodes, whose rows these are, within the window of these holes."""
    node, interval = busy.node[rows] - nodes.start, busy.interval[rows]
    at_s = np.concatenate([busy.start_s[interval], busy.end_s[interval]]).clip(window.from_s, window.until_s)
    order = order_by_node(np.tile(node, 2), at_s - window.from_s, window.duration_s)
    begins, at_s = order < len(rows), at_s[order]
    row = np.where(begins, order, order - len(rows))
    sign = np.where(begins, np.int8(1), np.int8(-1))
    has_jobs = np.cumsum(sign, dtype=np.int32) > 0
    is_outage = interval >= jobs
    if is_outage.any():
        has_jobs &= np.cumsum(sign * is_outage[row], dtype=np.int32) == 0
    count = nodes.stop - nodes.start
    steps_on = 2 * np.bincount(node, minlength=count)
    return Stretches(
        rows,
        interval,
        row,
        sign,
        np.repeat(np.arange(count, dtype=np.int32), steps_on),
        (np.cumsum(steps_on) - steps_on)[steps_on > 0],
        at_s,
        np.diff(at_s, append=at_s[-1:]),
        has_jobs,
        jobs,
        count,
    )


def free_of(stretches: Stretches, held: HeldAmount, alone: NDArray[np.bool_], nodes: slice) -> FreeAmount:
    """Free amounts of one resource; ``alone``: by stretch, whether its job is on one node only."""
    known = held.known[nodes]
    amount = stretches.of_jobs(held.amount, held.by_row)
    unknown = np.isnan(amount)
    amount[unknown] = 0.0
    # Of a job on several nodes the log tells the sum alone: only the least is sure to be on this one.
    sure = np.where(alone, amount, np.minimum(amount, held.least))
    # Jobs that end and begin at one instant would count together in a stretch of no length.
    lasting = np.where(stretches.lasts_s > 0, stretches.held(sure), 0.0)
    at_least = stretches.by_node(np.maximum(lasting, amount), np.maximum)
    size = np.where(np.isnan(known), at_least, known)
    free = (size[stretches.node] - stretches.held(amount)).clip(min=0.0)
    if unknown.any():
        free[stretches.held(unknown.astype(np.float64)) > 0.5] = np.nan
    return FreeAmount(size, bool((np.isnan(known) & (at_least > 0)).any()), free)


def find_idle_shares(
    placed: PlacedJobs,
    sizes: NodeSizes,
    busy: BusyTimes,
    holes: Holes,
    task: TaskRequest | None,
) -> IdleShares | None:
    """Idle parts of the nodes while they have jobs; None where the log does not say what any job holds.

    Memory and GPUs count only beside an idle CPU: without one, nobody could use them. Where the size of a node is
    not known, it is what jobs were seen to hold at once: the least that it can be if the nodes of each job are
    alike. ``busy`` are the jobs' rows and intervals, and behind them those of times in which nodes were out of
    service; ``holes`` are the machine's.
    """
    lasting = busy.lasts_s(holes.from_s, holes.until_s) > 0
    within = taken(lasting, busy.interval)
    runs = lasting[: len(placed.count)] & (placed.count > 0)
    # CPUs decide: without them it is not known whether a node was used in part at all.
    if np.isnan(placed.cores[within[: len(placed.cores)] if placed.cores_by_row else runs]).all():
        return None
    held, known_kinds = _held_by_jobs(placed, sizes, runs, task)
    alone = placed.count == 1
    nodes = len(busy.node_names)
    whole = np.empty(0, np.intp)
    if task is None and not placed.cores_by_row:
        # Nodes that jobs used whole have nothing idle: their rows, most of many logs, need not be sorted.
        used = taken(nodes_used_whole(placed, sizes["cpus"], busy, holes), busy.node)
        whole, within = np.flatnonzero(within & used), within & ~used
    found = [
        _parts_of(stretches_of(busy, of, rows, len(placed.count), holes), held, alone, of, task, known_kinds)
        for of, rows in some_nodes_at_a_time(busy.node, within, nodes)
    ]
    partly_used_s, idle, found_rooms = zip(*found, strict=True)
    parts = {
        what: _with_sizes([of_some[what] for of_some in idle], held[what], busy, whole) for what in known_kinds
    }
    rooms = [room for room in found_rooms if room is not None]
    return IdleShares(
        node_names=busy.node_names,
        partly_used_s=np.concatenate(partly_used_s),
        cpus=parts["cpus"],
        memory_bytes=parts.get("memory_bytes"),
        gpus=parts.get("gpus"),
        gpu_types=_gpu_types(placed, nodes),
        spread=_spread(placed, alone, holes),
        room=_joined(rooms, "on_empty", "node", "start_s", "end_s", "tasks", "sizes") if rooms else None,
    )


def _held_by_jobs(
    placed: PlacedJobs, sizes: NodeSizes, runs: NDArray[np.bool_], task: TaskRequest | None
) -> tuple[dict[str, HeldAmount], set[str]]:
    """Amounts that jobs hold of each resource that matters, and the resources of which the log says them."""
    held = {"cpus": HeldAmount(placed.cores, sizes["cpus"], 1.0, placed.cores_by_row)}
    known_kinds = {"cpus"}
    for what in ("memory_bytes", "gpus"):
        if task is None and not (placed.runs[what] > 0).any():
            continue
        amount = spread_evenly(placed.runs[what], placed.count)
        if (amount[runs] > 0).any():
            known_kinds.add(what)
        if task is not None or what in known_kinds:
            held[what] = HeldAmount(amount, sizes[what], 0.0)
    return held, known_kinds


def _with_sizes(parts: Sequence[IdlePart], held: HeldAmount, busy: BusyTimes, rows: NDArray[np.intp]) -> IdlePart:
    """Idle parts of all nodes, with the sizes of those that jobs used whole, one by one, whose rows these are."""
    part = _joined(parts, "size", "idle_s", "unknown_s")
    rows = rows[busy.interval[rows] < len(held.amount)]
    most = np.zeros(len(part.size))
    np.maximum.at(most, busy.node[rows], np.nan_to_num(held.amount)[busy.interval[rows]])
    unknown = (most > 0) & np.isnan(held.known)
    is_least = bool(unknown.any()) or any(some.is_least for some in parts)
    return replace(part, size=np.where(unknown, most, part.size), is_least=is_least)


def _joined(parts: Sequence[_Part], *columns: str) -> _Part:
    """Figures of some nodes after the other, joined into one: these columns of them one behind the other."""
    joined: dict[str, Any] = {name: np.concatenate([getattr(part, name) for part in parts]) for name in columns}
    return replace(parts[0], **joined)


def _parts_of(
    stretches: Stretches,
    held: Mapping[str, HeldAmount],
    alone: NDArray[np.bool_],
    nodes: slice,
    task: TaskRequest | None,
    known_kinds: Collection[str],
) -> tuple[Floats, Mapping[str, IdlePart], TaskRoom | None]:
    """Figures of some nodes: seconds in which they were partly used, their idle parts, and room for tasks."""
    of_one = stretches.of_jobs(alone)
    free = {what: free_of(stretches, its_held, of_one, nodes) for what, its_held in held.items()}
    partly = stretches.has_jobs & (free["cpus"].amount >= 1 - _INEXACT)
    idle: dict[str, IdlePart] = {}
    for what in known_kinds:
        amount, unknown = free[what].amount, np.isnan(free[what].amount)
        # Without the CPUs that jobs held it is not known whether the node was used in part.
        missed = unknown & (stretches.has_jobs if what == "cpus" else partly)
        idle[what] = IdlePart(
            size=free[what].size,
            idle_s=stretches.by_node(np.where(partly & ~unknown, amount, 0.0) * stretches.lasts_s),
            unknown_s=stretches.by_node(np.where(missed, stretches.lasts_s, 0.0)),
            is_least=free[what].is_least,
        )
    room = None if task is None else _task_room(stretches, free, partly, nodes, task, known_kinds)
    return stretches.by_node(np.where(partly, stretches.lasts_s, 0.0)), idle, room


def _task_room(
    stretches: Stretches,
    free: Mapping[str, FreeAmount],
    partly: NDArray[np.bool_],
    nodes: slice,
    task: TaskRequest,
    known_kinds: Collection[str],
) -> TaskRoom:
    """Room for tasks; memory is not asked for where the log does not say what any job holds of it."""
    asked = {
        "cpus": (float(task.keep.cpus), float(max(task.each.cpus, 1))),
        "memory_bytes": (task.keep.memory_mb * _MIB, task.each.memory_mb * _MIB),
        "gpus": (float(task.keep.gpus), float(task.each.gpus)),
    }
    unsaid = {"memory_bytes"} - set(known_kinds)
    ignored = ("memory",) if task.each.memory_mb and unsaid else ()
    counted = [name for name, (_, each) in asked.items() if each and name not in unsaid]
    fits = times_that_fit(((free[name].amount, *asked[name]) for name in counted), len(stretches.node))
    empty = times_that_fit(((free[name].size, *asked[name]) for name in counted), stretches.nodes)
    until_s = np.append(stretches.at_s[1:], stretches.at_s[-1:])
    rows = np.flatnonzero(partly & (fits > 0) & (until_s > stretches.at_s))
    node = stretches.node[rows] + np.int32(nodes.start)
    sizes = np.stack([np.zeros(stretches.nodes) if name in unsaid else free[name].size for name in asked], axis=1)
    return TaskRoom(task, empty, node, stretches.at_s[rows], until_s[rows], fits[rows], sizes, ignored)


def _gpu_types(placed: PlacedJobs, nodes: int) -> tuple[str, ...]:
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


def _spread(placed: PlacedJobs, alone: NDArray[np.bool_], window: Holes) -> float:
    """The part of the held CPU time that jobs on several nodes held."""
    lasts_s = placed.busy.lasts_s(window.from_s, window.until_s)
    cores = np.nan_to_num(placed.cores)
    if placed.cores_by_row:
        held_s = np.bincount(placed.busy.interval, cores, len(lasts_s)) * lasts_s
    else:
        held_s = cores * placed.count * lasts_s
    together_s = float(held_s.sum())
    return float(held_s[~alone].sum()) / together_s if together_s > 0 else 0.0


def times_that_fit(parts: Iterable[tuple[Floats, float, float]], shape: int) -> NDArray[np.int64]:
    """Number of tasks that fit at once, the scarcest of what they ask for deciding, shape (shape,).

    ``parts``, of each resource: free amount (nan: unknown), amount kept back of each node, and that of a task.
    """
    fits = np.full(shape, np.inf)
    for free, kept, each in parts:
        fits = np.minimum(fits, np.floor((np.nan_to_num(free) - kept) / each + _INEXACT))
    return np.where(np.isfinite(fits), fits, 0.0).clip(min=0.0).astype(np.int64)


def find_places(room: TaskRoom, holes: Holes) -> TaskPlaces:
    """Places for tasks: when there was room for each, beside jobs and on nodes without any."""
    fitting = _fitting(room, holes)
    most = np.zeros(len(holes.node_names), np.int64)
    np.maximum.at(most, fitting["node"].to_numpy(), fitting["tasks"].to_numpy())
    numbers = range(1, int(most.max(initial=0)) + 1)
    found = pl.concat([fitting.clear(), *(_lasting(fitting, number, room.task.shortest_s) for number in numbers)])
    node, start_s, end_s, number = (found[name].to_numpy() for name in ("node", "start_s", "end_s", "tasks"))
    names = tuple(
        new_place(name, place + 1)
        for name, count in zip(holes.node_names, most.tolist(), strict=True)
        for place in range(count)
    )
    kind_of = {name: kind for name in names if (kind := holes.kind_of.get(node_of(name)))}
    place = ((np.cumsum(most) - most)[node] + number - 1).astype(np.int32)
    its_holes = sorted_holes(names, place, start_s, end_s, holes.from_s, holes.until_s)
    idle_s = seconds_within(holes, node, start_s, end_s)
    return TaskPlaces(
        room.task,
        replace(its_holes, kind_of=kind_of, in_parts=True),
        np.repeat(np.arange(len(most), dtype=np.int32), most),
        np.bincount(node, end_s - start_s - idle_s, len(most)).astype(np.float64),
        np.bincount(node, idle_s, len(most)).astype(np.float64),
        room.sizes,
    )


def _fitting(room: TaskRoom, holes: Holes) -> pl.DataFrame:
    """Stretches of time in which at least one task fits on a node, in order of node and time."""
    columns = ("node", "start_s", "end_s")
    beside = pl.DataFrame({name: getattr(room, name) for name in (*columns, "tasks")})
    alone = pl.DataFrame({name: getattr(holes, name) for name in columns} | {"tasks": room.on_empty[holes.node]})
    return pl.concat([beside, alone]).filter(pl.col("tasks") > 0).sort("node", "start_s", maintain_order=True)


def _lasting(fitting: pl.DataFrame, number: int, shortest_s: float) -> pl.DataFrame:
    """Stretches of time in which so many tasks fit, or more, without a break, for so long at least."""
    node, start_s, end_s = pl.col("node"), pl.col("start_s"), pl.col("end_s")
    begins = (node != node.shift()) | (start_s > end_s.shift())
    return (
        fitting.filter(pl.col("tasks") >= number)
        .group_by(begins.fill_null(True).cum_sum().alias("stretch"), maintain_order=True)
        .agg(node.first(), start_s.first(), end_s.last(), pl.lit(number, pl.Int64).alias("tasks"))
        .drop("stretch")
        .filter(end_s - start_s >= shortest_s)
    )


def about_shares(shares: IdleShares) -> Iterator[str]:
    """Notes; where no node was partly used at most that no task fits on any: nodes without jobs show that, too."""
    room = shares.room
    if room is not None and not room.on_empty.any():
        kept = f" and {room.task.keep} are kept back (lend.keep)" if room.task.keep != Amount() else ""
        yield (
            f"No node is known to have as much as a task asks for: {room.task.words}{kept}. Where the log does "
            "not show all that nodes have, --machine tells it."
        )
    if not (shares.partly_used_s.any() or shares.cpus.unknown_s.any()):
        return
    parts: dict[str, IdlePart | None] = {"CPUs": shares.cpus, "memory": shares.memory_bytes, "GPUs": shares.gpus}
    known = {name: part for name, part in parts.items() if part is not None}
    least = [name for name, part in known.items() if part.is_least]
    if least:
        yield (
            f"How much nodes have ({', '.join(least)}) is taken to be the most that jobs held there at once: what "
            "lies idle on used nodes is at least what is shown, if the nodes of each job are alike. "
            "--machine tells more."
        )
    if shares.spread >= _WORTH_SAYING:
        yield (
            f"{100 * shares.spread:.0f} % of the CPU time was held by jobs on several nodes. The log tells their "
            "sums alone: they count as if they held as much of each node."
        )
    for name in room.ignored if room else ():
        yield f"The log says of no job how much {name} it held: what --task asks for of it is not heeded."
    for name, part in known.items():
        hours = float(part.unknown_s.sum()) / SECONDS_PER_HOUR
        if hours >= 1:
            yield (
                f"For {hours:,.0f} node-hours the log does not say how much of the {name} the jobs held: "
                "nothing of it counts as idle there."
            )
