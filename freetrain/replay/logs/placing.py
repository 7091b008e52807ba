"""Placing of jobs on nodes: by the log's own node lists, or first-fit where it says only how many nodes."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import polars as pl
from numpy.typing import NDArray

from freetrain.core.holes import Holes, taken
from freetrain.replay.logs.busy import BusyTimes, too_small
from freetrain.replay.logs.machine import LoggedMachine, Pool, made_up
from freetrain.replay.logs.nodelists import (
    MAX_LISTED,
    NodeIndex,
    NodeLists,
    gathered,
    read_node_lists,
    spelled_twice,
)
from freetrain.replay.logs.parsed import RowTally, distinct_texts, filtered
from freetrain.showing.words import natural_order

_NodeNumbers = NDArray[np.int32]
_Taken = tuple[_NodeNumbers, NDArray[np.int32]]
_OF_ROWS = ("file", "line", "nodes", "node_list")
_IN_ARRAYS = ("start_s", "end_s", "cores")
"""Columns that are not needed once runs are placed: what is kept of a row decides how large a log can be."""
_MOMENT_S = 1e-3
"""Tolerance in seconds: sums of seconds and their parts are not exact."""
_SHORTENED_FROM = 1024
_ROUNDED = 200
"""Error of counts from 1,024 on, which Slurm shortens (1.46K for 1,500): one in so many at most."""


@dataclass(frozen=True, slots=True)
class PackingGroup:
    """Nodes that some jobs may run on.

    Attributes:
        position: their positions in the machine, in the order they are given out.
        shared: jobs take cores; otherwise whole nodes.
    """

    position: _NodeNumbers
    cores: NDArray[np.int32]
    shared: bool

    @property
    def capacity(self) -> int:
        """Most that a job can need: cores where nodes are shared, otherwise nodes."""
        return int(self.cores.sum()) if self.shared else len(self.position)


@dataclass(frozen=True, slots=True)
class PackedJobs:
    """Nodes on which jobs were put.

    Attributes:
        node: nodes of all jobs, job after job.
        cores: cores that the job has of each of these nodes, as many rows as ``node``.
        missing_nodes: nodes (or shares of one) for which there was no room, shape (jobs,).
    """

    node: _NodeNumbers
    count: NDArray[np.int64]
    cores: NDArray[np.int32]
    missing_nodes: NDArray[np.float64]


def pack(
    start_s: NDArray[np.float64],
    end_s: NDArray[np.float64],
    need: NDArray[np.int64],
    group: NDArray[np.int64],
    groups: Sequence[PackingGroup],
    cores: NDArray[np.int32],
) -> PackedJobs:
    """Put jobs on nodes first-fit, in the order of their starts, on the lowest free nodes.

    A job needs nodes, or cores where its group's nodes are shared. One that ends when another starts makes room
    for it. Where the machine is full, a job gets what is left.
    """
    free = cores.copy()
    running: list[tuple[float, int]] = []
    taken: dict[int, _Taken] = {}
    nodes: list[_NodeNumbers] = [np.empty(0, np.int32)] * len(start_s)
    held = nodes.copy()
    missing = np.zeros(len(start_s))
    # Stable: of jobs with one start the earlier row is placed first, so that equal logs give equal holes.
    for job in np.argsort(start_s, kind="stable").tolist():
        while running and running[0][0] <= start_s[job]:
            node, got = taken.pop(heapq.heappop(running)[1])
            free[node] += got
        where, asked = groups[group[job]], int(need[job])
        if where.shared:
            node, got = _take_cores(free, where, asked)
            missing[job] = (asked - int(got.sum())) / int(where.cores[0])
        else:
            idle = np.flatnonzero(free[where.position] == where.cores)[:asked]
            node, got = where.position[idle], where.cores[idle]
            missing[job] = asked - len(got)
        free[node] -= got
        taken[job] = node, got
        nodes[job], held[job] = node, got
        heapq.heappush(running, (float(end_s[job]), job))
    count = np.array([len(node) for node in nodes], np.int64)
    return PackedJobs(_joined(nodes), count, _joined(held), missing)


def _joined(several: list[_NodeNumbers]) -> _NodeNumbers:
    return np.concatenate(several) if several else np.empty(0, np.int32)


def peak_in_use(start_s: NDArray[np.float64], end_s: NDArray[np.float64], need: NDArray[np.int64]) -> int:
    """The most nodes (or cores) in use at once."""
    time_s = np.concatenate([end_s, start_s])
    change = np.concatenate([-need, need])
    # Ends come first in the arrays, and a stable sort keeps them before starts at the same time.
    return int(np.cumsum(change[np.argsort(time_s, kind="stable")]).max(initial=0))


def _take_cores(free: NDArray[np.int32], group: PackingGroup, need: int) -> _Taken:
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


def _scatter(free: NDArray[np.int32], group: PackingGroup, need: int) -> _Taken:
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


@dataclass(frozen=True, slots=True)
class PlacedJobs:
    """Jobs on nodes.

    Attributes:
        busy: times at which nodes are busy; its intervals are those of the runs.
        runs: the runs that were placed; others were rejected. Columns as of a parsed file, without those that
            tell of nodes and of the row, and what stands here besides.
        count: for each run, the number of its nodes; ``busy`` has so many rows of it, run after run.
        missing_nodes: for each run, nodes that packing found no room for.
        cores: for each run, cores that it has of each of its nodes; nan: the log does not say. The log tells
            their sum alone. Of packed runs for each row of ``busy``: they have what was left on each node.
    """

    busy: BusyTimes
    runs: pl.DataFrame
    count: NDArray[np.int64]
    missing_nodes: NDArray[np.float64]
    cores: NDArray[np.float64]
    cores_by_row: bool = False


def place_by_lists(
    runs: pl.DataFrame,
    machine: LoggedMachine | None,
    nodes: int | None,
    tally: RowTally,
    other_lists: tuple[str, ...] = (),
) -> PlacedJobs:
    """Put each run on the nodes that its list names; ``other_lists`` name more nodes of the machine."""
    index = NodeIndex(machine.node_names, closed=True) if machine and machine.named else NodeIndex()
    texts, code = distinct_texts(runs["node_list"])
    lists = read_node_lists(texts, index, _most_listed(runs["nodes"], code, len(texts)).tolist())
    bad = _find_bad(runs, code, lists, tally)
    # A list of one frame hands it over: otherwise the caller's name would keep the old one in memory.
    alone = [runs.drop(_OF_ROWS)]
    del runs
    runs, code = filtered(alone, ~bad), code[~bad]
    if index.closed:
        names = tuple(index.position)
    else:
        others = read_node_lists(other_lists, index)
        lists, seen = _in_natural_order(lists, code, list(index.position), others.node)
        names = _padded(seen, len(machine.node_names) if machine else nodes, tally)
        _note_spelling(seen, tally)
    node, count = gathered(lists, code)
    cores = spread_evenly(runs["cores"], count)
    busy = _busy(names, node, count, runs)
    return PlacedJobs(busy, runs.drop(_IN_ARRAYS), count, np.zeros(len(runs)), cores)


def place_by_packing(runs: pl.DataFrame, machine: LoggedMachine, tally: RowTally) -> PlacedJobs:
    """Put runs on nodes first-fit, and note what that assumes."""
    partitions, number = distinct_texts(runs["partition"])
    groups, group = [_group(machine, partition) for partition in partitions], number.astype(np.int64)
    need = np.zeros(len(runs), np.int64)
    why: list[str | None] = [None] * len(runs)
    nodes, cores = runs["nodes"].to_list(), runs["cores"].to_list()
    for row, number in enumerate(group.tolist()):
        need[row], why[row] = _need(groups[number], partitions[number], nodes[row], cores[row])
    sound = np.array([reason is None for reason in why], bool)
    _reject(runs, ~sound, [reason for reason in why if reason], tally)
    runs, need, group = runs.drop(_OF_ROWS).filter(pl.Series(sound)), need[sound], group[sound]
    start_s, end_s = runs["start_s"].to_numpy(), runs["end_s"].to_numpy()
    packed = pack(start_s, end_s, need, group, groups, _cores_of(machine.pools))
    how = {True: "shared by the core", False: "taken whole"}
    pools = ", ".join(
        f"pool {pool.name}: {pool.end - pool.begin:,} nodes {how[pool.shared]}" for pool in machine.pools
    )
    tally.notes.append(
        "The log names no nodes: its jobs were packed first-fit, lowest node first, on the machine of "
        f"{machine.name} ({pools}). Which nodes are idle together, and for how long, is an assumption."
    )
    busy = _busy(machine.node_names, packed.node, packed.count, runs)
    kept, cores_of_row = runs.drop(_IN_ARRAYS), packed.cores.astype(np.float64)
    return PlacedJobs(busy, kept, packed.count, packed.missing_nodes, cores_of_row, cores_by_row=True)


def spread_evenly(amount: pl.Series, count: NDArray[np.int64]) -> NDArray[np.float64]:
    """Amount that each run has on each of its nodes, of so much together; nan where it is not known."""
    each: NDArray[np.float64] = amount.cast(pl.Float64).fill_null(np.nan).to_numpy() / count.clip(min=1)
    return each


def nodes_used_whole(
    placed: PlacedJobs, cpus: NDArray[np.float64], busy: BusyTimes, holes: Holes
) -> NDArray[np.bool_]:
    """Whether each job of a node held all its CPUs, one job after the other: then nothing lay idle beside them.

    ``busy`` are their rows, and behind them those of times in which nodes were out of service.
    """
    nodes, rows = len(holes.node_names), int(placed.count.sum())
    idle_s = np.bincount(holes.node, holes.length_s, nodes)
    busy_s = np.bincount(busy.node, taken(busy.lasts_s(holes.from_s, holes.until_s), busy.interval), nodes)
    one_by_one = (busy_s > 0) & (np.abs(busy_s + idle_s - holes.duration_s) < _MOMENT_S)
    node, cores = busy.node[:rows], taken(placed.cores, busy.interval[:rows])
    size = np.full(nodes, np.nan)
    size[node] = cores
    whole: NDArray[np.bool_] = one_by_one & (np.isnan(cpus) | (cpus == size))
    whole[node[taken(size, node) != cores]] = False
    return whole


def _need(group: PackingGroup, partition: str, nodes: int | None, cores: int | None) -> tuple[int, str | None]:
    if not len(group.position):
        return 0, f"partition {partition!r} is in no pool of the machine"
    each = int(group.cores[0])
    what = "cores" if group.shared else "nodes"
    if group.shared:
        need = cores if cores else (nodes or 0) * each
    else:
        need = nodes if nodes else -(-(cores or 0) // each)
    if need <= 0:
        return 0, f"ran but says of no {what}"
    if need > group.capacity:
        return need, f"needs {need:,} {what}, but the machine has {group.capacity:,} for it"
    return need, None


def _group(machine: LoggedMachine, partition: str) -> PackingGroup:
    """The nodes on which a partition's jobs may run; none where no pool is for it."""
    pools = machine.pools_of(partition)
    position = _joined([np.arange(pool.begin, pool.end, dtype=np.int32) for pool in pools])
    return PackingGroup(position, _cores_of(pools), bool(pools) and pools[0].shared)


def _cores_of(pools: Sequence[Pool]) -> NDArray[np.int32]:
    return _joined([np.full(pool.end - pool.begin, pool.cores, np.int32) for pool in pools])


def _most_listed(nodes: pl.Series, code: NDArray[np.uint32], lists: int) -> NDArray[np.int64]:
    """Most nodes that each list may name, by what the log says beside it of the jobs with that list."""
    logged = nodes.fill_null(0).to_numpy()
    most = np.zeros(lists, np.int64)
    np.maximum.at(most, code, logged)
    most = most.clip(max=MAX_LISTED)
    most += np.where(most >= _SHORTENED_FROM, most // _ROUNDED + 1, 0)
    most[code[logged == 0]] = MAX_LISTED
    return most


def _find_bad(
    runs: pl.DataFrame, code: NDArray[np.uint32], lists: NodeLists, tally: RowTally
) -> NDArray[np.bool_]:
    """Count runs whose list cannot be read, or does not name as many nodes as the log says; which they are."""
    listed = np.diff(lists.begin)[code]
    logged = runs["nodes"].fill_null(0).to_numpy()
    unread = np.isin(code, list(lists.bad)) if lists.bad else np.zeros(len(code), bool)
    differ = np.flatnonzero((logged > 0) & (logged != listed))
    slack = np.where(logged[differ] >= _SHORTENED_FROM, logged[differ] // _ROUNDED + 1, 0)
    bad = unread
    bad[differ[np.abs(logged[differ] - listed[differ]) > slack]] = True
    rows = zip(code[bad].tolist(), logged[bad].tolist(), listed[bad].tolist(), strict=True)
    reasons = [
        lists.bad.get(number) or f"had {had:,} nodes, but its list names {names:,}" for number, had, names in rows
    ]
    _reject(runs, bad, reasons, tally)
    return bad


def _reject(runs: pl.DataFrame, bad: NDArray[np.bool_], reasons: list[str], tally: RowTally) -> None:
    rows = runs.filter(pl.Series(bad)).select("file", "line").iter_rows()
    tally.reject((file, line, reason) for (file, line), reason in zip(rows, reasons, strict=True))


def _in_natural_order(
    lists: NodeLists, code: NDArray[np.uint32], names: list[str], others: NDArray[np.int32]
) -> tuple[NodeLists, list[str]]:
    """Renumber nodes so that c2 comes before c10; names in no list of a run and not in ``others`` are dropped."""
    has_runs = np.bincount(code, minlength=len(lists.begin) - 1) > 0
    used = np.union1d(lists.node[np.repeat(has_runs, np.diff(lists.begin))], others).tolist()
    # Sorted before: names that differ in zeros alone have the same place in natural order.
    ordered = natural_order(sorted(names[position] for position in used))
    place = {name: position for position, name in enumerate(ordered)}
    new = np.zeros(len(names), np.int32)
    new[used] = [place[names[position]] for position in used]
    return replace(lists, node=new[lists.node]), ordered


def _padded(seen: list[str], total: int | None, tally: RowTally) -> tuple[str, ...]:
    """The machine's names, filled up to its number of nodes, with a note if that was needed."""
    if total is None:
        tally.notes.append(
            f"The machine is taken to be the {len(seen):,} node{'s' * (len(seen) != 1)} that the log names; "
            "others cannot be seen in it."
        )
    if total is None or total == len(seen):
        return tuple(seen)
    if total < len(seen):
        raise too_small(len(seen), total)
    tally.notes.append(
        f"{total - len(seen):,} of the machine's {total:,} nodes are never named in the log: "
        "they look idle all the time."
    )
    return (*seen, *made_up("unseen", total - len(seen)))


def _note_spelling(names: list[str], tally: RowTally) -> None:
    """Note if nodes may be there under two names, of which one then looks idle while the other has jobs."""
    pairs = spelled_twice(names)
    if pairs:
        one, other = pairs[0]
        more = f" ({len(pairs) - 1:,} more like these)" if len(pairs) > 1 else ""
        tally.notes.append(
            f"Names of nodes differ in capitals, in zeros or in a domain alone: {one} and {other}{more}. They "
            "count as nodes of their own; if they are the same, one of the two only looks idle."
        )


def _busy(
    names: tuple[str, ...], node: NDArray[np.int32], count: NDArray[np.int64], runs: pl.DataFrame
) -> BusyTimes:
    run = np.repeat(np.arange(len(runs), dtype=np.int32), count)
    return BusyTimes(names, node, run, runs["start_s"].to_numpy(), runs["end_s"].to_numpy())
