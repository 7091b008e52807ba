"""What was lent and trained of the idle parts of nodes, node by node."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from freetrain.core.fragment import node_of
from freetrain.core.holes import Holes, seconds_within
from freetrain.replay.course import ReplayRecord
from freetrain.replay.logs.model import SiteLog
from freetrain.replay.study import DaemonStudy, Study
from freetrain.replay.task_shapes import TaskShapes

_Numbers = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class LentShares:
    """Seconds × places, shape (nodes,). A place of another shape than the usual one counts as several of these.

    What a training lost counts as lost in equal parts of all the time for which it had places.

    Attributes:
        beside_jobs_s: in which trainers had places on nodes that had jobs.
        idle_nodes_s: on nodes without.
        useful_beside_jobs_s: the former, less what was lost of them.
        useful_idle_nodes_s: the latter.
        cpus_beside_jobs_s: seconds × CPUs of the places beside jobs.
        gpus_beside_jobs_s: seconds × GPUs of them.
    """

    beside_jobs_s: _Numbers
    idle_nodes_s: _Numbers
    useful_beside_jobs_s: _Numbers
    useful_idle_nodes_s: _Numbers
    cpus_beside_jobs_s: _Numbers
    gpus_beside_jobs_s: _Numbers


def lent_of(played: Study | DaemonStudy | None, log: SiteLog) -> LentShares | None:
    """What a replay on parts of nodes lent; None: there was none."""
    if played is None or log.places is None:
        return None
    return _added_up(played.record, log.holes, TaskShapes(log.places.task.each, says_memory=True))


def _added_up(record: ReplayRecord, holes: Holes, shapes: TaskShapes) -> LentShares:
    position = {name: number for number, name in enumerate(holes.node_names)}
    rows = record.lent_times
    node = np.array([position[node_of(one.place)] for one in rows], np.int32)
    from_s = np.array([one.from_s for one in rows], np.float64)
    until_s = np.array([one.until_s for one in rows], np.float64)
    useful = _useful_parts(record)
    part = np.array([useful.get(one.trainer, 0.0) for one in rows], np.float64)
    own = {run.trainer.id: (run.counts_as, shapes.of(run.trainer)) for run in record.runs}
    each = np.array([own[one.trainer][0] for one in rows], np.float64)
    cpus = np.array([own[one.trainer][1].cpus for one in rows], np.float64)
    gpus = np.array([own[one.trainer][1].gpus for one in rows], np.float64)
    idle_s = seconds_within(holes, node, from_s, until_s)
    beside_s = until_s - from_s - idle_s
    count = len(holes.node_names)
    parts = (
        each * beside_s,
        each * idle_s,
        part * each * beside_s,
        part * each * idle_s,
        cpus * beside_s,
        gpus * beside_s,
    )
    return LentShares(*(np.bincount(node, seconds, count).astype(np.float64) for seconds in parts))


def _useful_parts(record: ReplayRecord) -> dict[str, float]:
    """Trainer → which part of the time for which it had places was of use."""
    lent_s: defaultdict[str, float] = defaultdict(float)
    for one in record.lent_times:
        lent_s[one.trainer] += one.until_s - one.from_s
    return {
        run.trainer.id: (run.node_s - run.booting_node_s - run.lost_node_s)
        / (run.counts_as * lent_s[run.trainer.id])
        for run in record.runs
        if lent_s[run.trainer.id] and run.counts_as
    }
