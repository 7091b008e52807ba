"""The idle parts of nodes that jobs used: how much lay idle and was lent, node by node, and in figures."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from freetrain.core.holes import SECONDS_PER_HOUR, Holes, seconds_within
from freetrain.core.place import node_of
from freetrain.replay.course import ReplayRecord
from freetrain.replay.logs.model import IdlePart, IdleShares, SiteLog
from freetrain.replay.nodes import nodes_by_kind, nodes_by_partition
from freetrain.replay.study import DaemonStudy, Study
from freetrain.replay.trainers import TaskShapes

_Seconds = NDArray[np.float64]
_GIB = 2.0**30


LentShares = Mapping[str, _Seconds]
"""Figure of :class:`ShareOutcome` → seconds × places, CPUs or GPUs that trainers had of each node, shape (nodes,).

A place of another shape than the usual one counts as several of these. What a training lost counts as lost in
equal parts of all the time for which it had places.
"""


def lent_of(played: Study | DaemonStudy | None, log: SiteLog) -> LentShares | None:
    """What a replay on parts of nodes lent; None: there was none."""
    if played is None or log.places is None:
        return None
    return _lent_by_node(played.record, log.holes, TaskShapes(log.places.task.each, says_memory=True))


def _lent_by_node(record: ReplayRecord, holes: Holes, shapes: TaskShapes) -> LentShares:
    position = {name: number for number, name in enumerate(holes.node_names)}
    rows = record.leases
    node = np.array([position[node_of(lease.place)] for lease in rows], np.int32)
    from_s = np.array([lease.from_s for lease in rows], np.float64)
    until_s = np.array([lease.until_s for lease in rows], np.float64)
    useful = _useful_parts(record)
    part = np.array([useful.get(lease.trainer, 0.0) for lease in rows], np.float64)
    own = {run.trainer.id: (run.counts_as, shapes.of(run.trainer)) for run in record.runs}
    each = np.array([own[lease.trainer][0] for lease in rows], np.float64)
    cpus = np.array([own[lease.trainer][1].cpus for lease in rows], np.float64)
    gpus = np.array([own[lease.trainer][1].gpus for lease in rows], np.float64)
    idle_s = seconds_within(holes, node, from_s, until_s)
    beside_s = until_s - from_s - idle_s
    count = len(holes.node_names)
    parts = {
        "partly_lent_task_hours": each * beside_s,
        "partly_useful_task_hours": part * each * beside_s,
        "partly_lent_cpu_hours": cpus * beside_s,
        "partly_lent_gpu_hours": gpus * beside_s,
        "idle_nodes_lent_task_hours": each * idle_s,
        "idle_nodes_useful_task_hours": part * each * idle_s,
    }
    return {name: np.bincount(node, seconds, count).astype(np.float64) for name, seconds in parts.items()}


def _useful_parts(record: ReplayRecord) -> dict[str, float]:
    """Trainer → which part of the time for which it had places was of use."""
    lent_s: defaultdict[str, float] = defaultdict(float)
    for lease in record.leases:
        lent_s[lease.trainer] += lease.until_s - lease.from_s
    return {
        run.trainer.id: (run.node_s - run.booting_node_s - run.lost_node_s)
        / (run.counts_as * lent_s[run.trainer.id])
        for run in record.runs
        if lent_s[run.trainer.id] and run.counts_as
    }


@dataclass(frozen=True, slots=True)
class ShareOutcome:
    """All figures of the idle parts of nodes, and beside them those of idle nodes."""

    partly_used_node_hours: Annotated[float, "node-hours in which nodes had jobs and an idle CPU"]
    partly_idle_cpu_hours: Annotated[float, "CPU-hours that no job held on partly used nodes"]
    partly_idle_memory_gib_hours: Annotated[float | None, "GiB-hours of memory that no job held there"]
    partly_idle_gpu_hours: Annotated[float | None, "GPU-hours that no job held there"]
    idle_nodes_cpu_hours: Annotated[float, "CPU-hours of nodes that ran none of the site's jobs"]
    idle_nodes_memory_gib_hours: Annotated[float | None, "GiB-hours of their memory"]
    idle_nodes_gpu_hours: Annotated[float | None, "GPU-hours of them"]
    held_unknown_node_hours: Annotated[
        float, "node-hours with jobs of which the log does not say how many CPUs they held; they count as used"
    ]
    partly_fitting_task_hours: Annotated[
        float | None,
        "hours of tasks as --task that would have fit beside jobs there, each for lend.shortest_hole or longer",
    ] = None
    partly_lent_task_hours: Annotated[float | None, "those of them in which a trainer had the place"] = None
    partly_useful_task_hours: Annotated[
        float | None, "lent hours there, less those lost to evictions, rescales, starts and boots"
    ] = None
    partly_lent_cpu_hours: Annotated[float | None, "CPU-hours that trainers had there"] = None
    partly_lent_gpu_hours: Annotated[float | None, "GPU-hours that trainers had there"] = None
    idle_nodes_fitting_task_hours: Annotated[
        float | None, "hours of such tasks that would have fit on nodes that ran none of the site's jobs"
    ] = None
    idle_nodes_lent_task_hours: Annotated[float | None, "those of them in which a trainer had the place"] = None
    idle_nodes_useful_task_hours: Annotated[float | None, "lent hours there, less those lost"] = None


@dataclass(frozen=True, slots=True)
class ShareRow:
    """The figures of some nodes: by what they were chosen, its name, how many they are."""

    what: str
    name: str
    nodes: int
    outcome: ShareOutcome


def share_outcome(log: SiteLog, lent: LentShares | None = None) -> ShareOutcome | None:
    """Add up the idle parts of all nodes; None where the log does not show them."""
    every = np.arange(len(log.holes.node_names), dtype=np.intp)
    return None if log.shares is None else _added_up(log, log.shares, _idle_s(log.holes), every, lent)


def share_rows(log: SiteLog, lent: LentShares | None = None) -> tuple[ShareRow, ...]:
    """The figures by partition and kind of node, where there are several, and by type of GPU."""
    shares = log.shares
    if shares is None:
        return ()
    idle_s = _idle_s(log.holes)
    rows: list[ShareRow] = []
    for what, groups in (
        ("partition", _several(nodes_by_partition(log.logged) if log.logged else ())),
        ("kind of node", _several(nodes_by_kind(log))),
        ("GPU", list(_by_gpu_type(shares))),
    ):
        found = (ShareRow(what, name, len(own), _added_up(log, shares, idle_s, own, lent)) for name, own in groups)
        rows += sorted(found, key=lambda row: (-row.outcome.partly_idle_cpu_hours, row.name))
    return tuple(rows)


def _by_gpu_type(shares: IdleShares) -> Iterator[tuple[str, NDArray[np.intp]]]:
    if shares.gpus is None:
        return
    types = np.array(shares.gpu_types)
    for name in np.unique(types).tolist():
        nodes = np.flatnonzero((types == name) & (shares.gpus.size > 0))
        if len(nodes):
            yield name or "of unknown type", nodes


def _several(groups: Iterable[tuple[str, NDArray[np.intp]]]) -> list[tuple[str, NDArray[np.intp]]]:
    found = list(groups)
    return found if len(found) > 1 else []


def _added_up(
    log: SiteLog, shares: IdleShares, idle_s: _Seconds, nodes: NDArray[np.intp], lent: LentShares | None
) -> ShareOutcome:
    def hours(values_s: _Seconds) -> float:
        return float(values_s[nodes].sum()) / SECONDS_PER_HOUR

    def parts(part: IdlePart | None, unit: float) -> tuple[float | None, float | None]:
        return (None, None) if part is None else (hours(part.idle_s) / unit, hours(part.size * idle_s) / unit)

    memory, gpus, places = parts(shares.memory_bytes, _GIB), parts(shares.gpus, 1.0), log.places
    return ShareOutcome(
        partly_used_node_hours=hours(shares.partly_used_s),
        partly_idle_cpu_hours=hours(shares.cpus.idle_s),
        partly_idle_memory_gib_hours=memory[0],
        partly_idle_gpu_hours=gpus[0],
        idle_nodes_cpu_hours=hours(shares.cpus.size * idle_s),
        idle_nodes_memory_gib_hours=memory[1],
        idle_nodes_gpu_hours=gpus[1],
        held_unknown_node_hours=hours(shares.cpus.unknown_s),
        partly_fitting_task_hours=hours(places.beside_jobs_s) if places else None,
        idle_nodes_fitting_task_hours=hours(places.idle_nodes_s) if places else None,
        **{name: hours(seconds) for name, seconds in (lent or {}).items()},
    )


def _idle_s(holes: Holes) -> _Seconds:
    seconds: _Seconds = np.bincount(holes.node, holes.length_s, len(holes.node_names)).astype(np.float64)
    return seconds
