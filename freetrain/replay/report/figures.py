"""What the report's pictures show, as plain series ready to draw."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray

from freetrain.core.holes import SECONDS_PER_HOUR, Holes
from freetrain.replay.course import ReplayRecord
from freetrain.replay.report.kinds import MOST_TRAINERS
from freetrain.replay.study import Study
from freetrain.replay.timeline import Timeline
from freetrain.replay.trainer_run import Loss, TrainerRun

MOST_BINS = 600
Numbers = NDArray[np.float64]

_DAY_S = 86_400.0
_LENGTHS_S: tuple[tuple[float, str], ...] = (
    (10, "10 s"),
    (60, "1 min"),
    (180, "3 min"),
    (600, "10 min"),
    (1_800, "30 min"),
    (3_600, "1 h"),
    (10_800, "3 h"),
    (21_600, "6 h"),
    (43_200, "12 h"),
    (_DAY_S, "1 day"),
    (3 * _DAY_S, "3 days"),
    (7 * _DAY_S, "7 days"),
    (28 * _DAY_S, "28 days"),
)


@dataclass(frozen=True, slots=True)
class NodesOverTime:
    """Idle and lent nodes, averaged over bins of equal width.

    Attributes:
        edges_s: edges of the bins, shape (bins + 1,).
        idle_nodes: idle nodes in each bin on average, lent ones included, shape (bins,).
        lent_nodes: lent nodes in each bin on average, shape (bins,).
        mean_idle_nodes: idle nodes over the whole window on average.
    """

    edges_s: Numbers
    idle_nodes: Numbers
    lent_nodes: Numbers
    mean_idle_nodes: float


@dataclass(frozen=True, slots=True)
class SamplesOverTime:
    """Samples trained so far, in the replay and on the dedicated machine.

    Attributes:
        at_s: instants, the window's start and end included, shape (points,).
        allowed: samples until then, as the holes allow, shape (points,).
        dedicated: samples of the dedicated machine until then, shape (points,).
        daemon: samples as the daemon would have gone, shape (points,); None: that was not asked.
    """

    at_s: Numbers
    allowed: Numbers
    dedicated: Numbers
    daemon: Numbers | None = None


@dataclass(frozen=True, slots=True)
class HoleLengths:
    """How long holes are, in buckets that grow like a logarithm; empty ones at the ends are left out.

    Attributes:
        labels: each bucket in words, shortest holes first.
        holes: holes in each bucket, shape (buckets,).
        node_hours: idle node-hours in the holes of each bucket, shape (buckets,).
    """

    labels: tuple[str, ...]
    holes: NDArray[np.int64]
    node_hours: Numbers


@dataclass(frozen=True, slots=True)
class TrainerRow:
    """One line of the table of trainers.

    Attributes:
        id: the trainer's name.
        rank: its place in the order of admission, from 0; decides its colour.
        samples: samples it trained.
        node_hours: node-hours lent to it.
        started_s: when it first trained.
        completed_s: when it reached its target.
        done: its samples / its target; None without a target.
        evictions: nodes taken from it unasked.
        rescales: times it paid for a change of size that freetrain decided.
        lost_h: hours of training it lost to all of these and to starting.
    """

    id: str
    rank: int
    samples: float
    node_hours: float
    started_s: float | None
    completed_s: float | None
    done: float | None
    evictions: int
    rescales: int
    lost_h: float


def bin_means(at_s: ArrayLike, value: ArrayLike, edges_s: Numbers) -> Numbers:
    """Means over bins of a step function that is 0 at first and ``value[i]`` from ``at_s[i]`` on.

    Areas are preserved: the means × the widths of their bins add up to the function's integral.
    """
    at, values = np.asarray(at_s, float), np.asarray(value, float)
    at = np.concatenate(
        [[min(edges_s[0], at.min(initial=np.inf))], at, [max(edges_s[-1], at.max(initial=-np.inf))]]
    )
    values = np.concatenate([[0.0], values])
    area = np.concatenate([[0.0], np.cumsum(values * np.diff(at))])
    means: Numbers = np.diff(np.interp(edges_s, at, area)) / np.diff(edges_s)
    return means


def nodes_over_time(holes: Holes, timeline: Timeline, bins: int = MOST_BINS) -> NodesOverTime:
    """Idle and lent nodes over the window."""
    edges_s = np.linspace(holes.from_s, holes.until_s, bins + 1)
    return NodesOverTime(edges_s, *node_means(holes, timeline, edges_s), holes.mean_idle_nodes)


def node_means(holes: Holes, timeline: Timeline, edges_s: Numbers) -> tuple[Numbers, Numbers]:
    """Idle and lent nodes on average between these instants."""
    at_s = np.concatenate([holes.start_s, holes.end_s])
    change = np.concatenate([np.ones(len(holes)), -np.ones(len(holes))])
    order = np.argsort(at_s, kind="stable")
    idle_nodes = bin_means(at_s[order], np.cumsum(change[order]), edges_s)
    return idle_nodes, bin_means(timeline.at_s, timeline.lent_nodes, edges_s)


def samples_over_time(study: Study, points: int = MOST_BINS) -> SamplesOverTime:
    """Samples so far over the window, in the replays and on the dedicated machine."""
    holes, dedicated = study.record.holes, study.dedicated
    at_s = np.linspace(holes.from_s, holes.until_s, points + 1)
    alone = np.interp(at_s, [holes.from_s, *dedicated.at_s], [0.0, *dedicated.samples_at])
    daemon = _samples_at(study.as_daemon.record, at_s) if study.as_daemon else None
    return SamplesOverTime(at_s, _samples_at(study.record, at_s), alone, daemon)


def _samples_at(record: ReplayRecord, at_s: Numbers) -> Numbers:
    holes, timeline = record.holes, record.timeline
    total = sum(run.samples for run in record.runs)
    known_s = [holes.from_s, *timeline.at_s, holes.until_s]
    samples: Numbers = np.interp(at_s, known_s, [0.0, *timeline.samples, total])
    return samples


def hole_lengths(holes: Holes) -> HoleLengths:
    """Distribution of the holes' lengths, by count and by node-hours."""
    names = [name for _, name in _LENGTHS_S]
    labels = [f"under {names[0]}", *(_between(low, high) for low, high in pairwise(names))]
    labels.append(f"over {names[-1]}")
    bucket = np.searchsorted([length_s for length_s, _ in _LENGTHS_S], holes.length_s, side="right")
    counts = np.bincount(bucket, minlength=len(labels))
    node_hours = np.bincount(bucket, holes.length_s, minlength=len(labels)) / SECONDS_PER_HOUR
    filled = np.flatnonzero(counts)
    kept = slice(filled[0], filled[-1] + 1) if len(filled) else slice(0)
    return HoleLengths(tuple(labels[kept]), counts[kept], node_hours[kept])


def _between(low: str, high: str) -> str:
    amount, unit = low.split()
    return f"{amount if high.split()[1].startswith(unit) else low} – {high}"


def trainer_rows(runs: Sequence[TrainerRun], most: int = MOST_TRAINERS) -> tuple[TrainerRow, ...]:
    """The trainers that trained most samples, most first; equal ones by admission."""
    ranked = sorted(enumerate(runs), key=lambda item: (-item[1].samples, item[0]))
    return tuple(_trainer_row(rank, run) for rank, run in ranked[:most])


def _trainer_row(rank: int, run: TrainerRun) -> TrainerRow:
    target = run.trainer.target_samples
    return TrainerRow(
        id=run.trainer.id,
        rank=rank,
        samples=run.samples,
        node_hours=run.node_s / SECONDS_PER_HOUR,
        started_s=run.started_s,
        completed_s=run.completed_s,
        done=None if target is None else run.samples / target,
        evictions=run.evicted_nodes,
        rescales=run.losses[Loss.SCALE_UP] + run.losses[Loss.SCALE_DOWN],
        lost_h=sum(run.lost_s.values()) / SECONDS_PER_HOUR,
    )
