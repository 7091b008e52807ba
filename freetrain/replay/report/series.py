"""Data of the report's pictures, as plain series: nodes and samples over time, the grid, the week."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import tzinfo
from itertools import pairwise

import numpy as np
import polars as pl
from numpy.typing import ArrayLike, NDArray

from freetrain.core.holes import SECONDS_PER_HOUR, Holes
from freetrain.core.throughput import Floats
from freetrain.replay.course import ReplayRecord, Timeline
from freetrain.replay.logs.window import clock_hours
from freetrain.replay.study import Study
from freetrain.showing.words import amount, count, share

MAX_BINS = 600

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
BUSY, IDLE, FIRST_COLOUR = 0, 1, 2
_WEEK_HOURS = 7 * 24
WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")


@dataclass(frozen=True, slots=True)
class NodesOverTime:
    """Idle and lent nodes, averaged over bins of equal width.

    Attributes:
        idle_nodes: idle nodes in each bin on average, lent ones included, shape (bins,).
    """

    edges_s: Floats
    idle_nodes: Floats
    lent_nodes: Floats
    mean_idle_nodes: float


@dataclass(frozen=True, slots=True)
class SamplesOverTime:
    """Samples trained so far, in the replay and on the dedicated machine.

    Attributes:
        at_s: instants, the window's start and end included, shape (points,).
    """

    at_s: Floats
    allowed: Floats
    dedicated: Floats
    daemon: Floats | None = None


@dataclass(frozen=True, slots=True)
class HoleLengths:
    """Lengths of holes, in buckets that grow like a logarithm; empty ones at the ends are left out."""

    labels: tuple[str, ...]
    holes: NDArray[np.int64]
    node_hours: Floats


def bin_means(at_s: ArrayLike, value: ArrayLike, edges_s: Floats) -> Floats:
    """Means over bins of a step function that is 0 at first and ``value[i]`` from ``at_s[i]`` on.

    Areas are preserved: the means × the widths of their bins add up to the function's integral.
    """
    at, values = np.asarray(at_s, float), np.asarray(value, float)
    at = np.concatenate(
        [[min(edges_s[0], at.min(initial=np.inf))], at, [max(edges_s[-1], at.max(initial=-np.inf))]]
    )
    values = np.concatenate([[0.0], values])
    area = np.concatenate([[0.0], np.cumsum(values * np.diff(at))])
    means: Floats = np.diff(np.interp(edges_s, at, area)) / np.diff(edges_s)
    return means


def nodes_over_time(holes: Holes, timeline: Timeline, bins: int = MAX_BINS) -> NodesOverTime:
    """Idle and lent nodes over the window."""
    edges_s = np.linspace(holes.from_s, holes.until_s, bins + 1)
    return NodesOverTime(edges_s, *node_means(holes, timeline, edges_s), holes.mean_idle_nodes)


def node_means(holes: Holes, timeline: Timeline, edges_s: Floats) -> tuple[Floats, Floats]:
    """Idle and lent nodes on average between these instants."""
    return bin_means(*idle_steps(holes), edges_s), bin_means(timeline.at_s, timeline.lent_nodes, edges_s)


def idle_steps(holes: Holes) -> tuple[Floats, Floats]:
    """Times at which the number of idle nodes changes, in order, and the number from then on."""
    at_s = np.concatenate([holes.start_s, holes.end_s])
    change = np.concatenate([np.ones(len(holes)), -np.ones(len(holes))])
    order = np.argsort(at_s, kind="stable")
    return at_s[order], np.cumsum(change[order])


def samples_over_time(study: Study, points: int = MAX_BINS) -> SamplesOverTime:
    """Samples so far over the window, in the replays and on the dedicated machine."""
    holes, dedicated = study.record.holes, study.dedicated
    at_s = np.linspace(holes.from_s, holes.until_s, points + 1)
    alone = np.interp(at_s, [holes.from_s, *dedicated.at_s], [0.0, *dedicated.samples_at])
    daemon = _samples_at(study.as_daemon.record, at_s) if study.as_daemon else None
    return SamplesOverTime(at_s, _samples_at(study.record, at_s), alone, daemon)


def _samples_at(record: ReplayRecord, at_s: Floats) -> Floats:
    holes, timeline = record.holes, record.timeline
    known_s = [holes.from_s, *timeline.at_s, holes.until_s]
    samples: Floats = np.interp(at_s, known_s, [0.0, *timeline.samples, record.samples])
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


@dataclass(frozen=True, slots=True)
class NodeGrid:
    """States of each pictured node in each column of time.

    Attributes:
        states: BUSY, IDLE (and not lent) or FIRST_COLOUR + the colour of the trainer that had the node,
            whichever covers most of the column, shape (nodes, columns).
    """

    nodes: tuple[str, ...]
    states: NDArray[np.uint8]
    from_s: float
    until_s: float


def node_grid(record: ReplayRecord, columns: int, colours: int) -> NodeGrid:
    """States of the pictured nodes; trainers take the colours in turn, by order of admission."""
    holes, nodes = record.holes, record.timeline.pictured
    lent = _lent_shares(record, columns, colours)
    ever_idle = _ever_idle_shares(record, columns)
    shares = np.concatenate(
        [1 - ever_idle[:, None], ever_idle[:, None] - lent.sum(axis=1, keepdims=True), lent], 1
    )
    states = shares.argmax(axis=1).astype(np.uint8)
    return NodeGrid(nodes, states, holes.from_s, holes.until_s)


def _lent_shares(record: ReplayRecord, columns: int, colours: int) -> NDArray[np.float64]:
    """Share of each column in which a trainer of each colour had the node, shape (nodes, colours, columns)."""
    row = {name: number for number, name in enumerate(record.timeline.pictured)}
    colour = {run.trainer.id: rank % colours for rank, run in enumerate(record.runs)}
    leases = record.timeline.leases.all
    return _shares(
        np.array([row[lease.place] * colours + colour[lease.trainer] for lease in leases], np.intp),
        _columns(record, np.array([lease.from_s for lease in leases]), columns),
        _columns(record, np.array([lease.until_s for lease in leases]), columns),
        (len(row) * colours, columns),
    ).reshape(len(row), colours, columns)


def _ever_idle_shares(record: ReplayRecord, columns: int) -> NDArray[np.float64]:
    """Share of each column in which the node was idle, lent or not, shape (nodes, columns)."""
    # From the holes: a replay ends where it has nothing left to do, the holes go on.
    holes = record.holes
    row_of = np.full(len(holes.node_names), -1, np.intp)
    position = {name: number for number, name in enumerate(holes.node_names)}
    pictured = record.timeline.pictured
    row_of[[position[name] for name in pictured]] = np.arange(len(pictured))
    row = row_of[holes.node]
    shown = row >= 0
    start, end = _columns(record, holes.start_s[shown], columns), _columns(record, holes.end_s[shown], columns)
    return _shares(row[shown], start, end, (len(pictured), columns))


def _columns(record: ReplayRecord, at_s: NDArray[np.float64], columns: int) -> NDArray[np.float64]:
    return np.clip((at_s - record.holes.from_s) / record.holes.duration_s * columns, 0, columns)


def _shares(
    row: NDArray[np.intp], start: NDArray[np.float64], end: NDArray[np.float64], shape: tuple[int, int]
) -> NDArray[np.float64]:
    """Share of each unit column that the intervals [start, end) of each row cover."""
    # An interval is a step up at its start less one at its end; a step within column k covers 1 − fraction
    # of k and all of the columns after it: two entries under a running sum.
    steps = np.zeros((shape[0], shape[1] + 2))
    for at, sign in ((start, 1.0), (end, -1.0)):
        column = np.floor(at).astype(np.intp)
        fraction = at - column
        np.add.at(steps, (row, column), sign * (1 - fraction))
        np.add.at(steps, (row, column + 1), sign * fraction)
    covered: NDArray[np.float64] = np.cumsum(steps, axis=1)[:, : shape[1]]
    return covered


@dataclass(frozen=True, slots=True)
class Rhythm:
    """Idle and lent nodes on average, by hour of the day and by day of the week, as the site's clocks count."""

    idle_by_hour: Floats
    lent_by_hour: Floats
    idle_by_day: Floats
    lent_by_day: Floats


def find_rhythm(holes: Holes, timeline: Timeline, zone: tzinfo) -> Rhythm | None:
    """The rhythm; None where the window is shorter than a week."""
    if holes.duration_s < 7 * _DAY_S or not len(holes):
        return None
    hours = _hours(holes, timeline, zone)
    return Rhythm(*_means(hours, "hour", 24), *_means(hours, "weekday", 7))


def find_weeks(holes: Holes, timeline: Timeline, zone: tzinfo) -> pl.DataFrame:
    """The weeks from Monday to Sunday that lie in the window as a whole, with their idle and lent node-hours."""
    # Clocks that are put forward make a week an hour shorter.
    is_whole = pl.col("lasts_s") >= (_WEEK_HOURS - 1) * SECONDS_PER_HOUR
    weeks = _hours(holes, timeline, zone).group_by("monday").agg(pl.col("lasts_s", "idle_s", "lent_s").sum())
    hours = (pl.col(f"{name}_s").alias(f"{name}_h") / SECONDS_PER_HOUR for name in ("idle", "lent"))
    return weeks.filter(is_whole).sort("monday").select("monday", *hours)


def about_weeks(weeks: pl.DataFrame) -> str:
    """Remark on how far weeks differ, in a sentence; empty for fewer than two."""
    if len(weeks) < 2:
        return ""
    (low, low_h, _), (high, high_h, _) = (pick(weeks.rows(), key=lambda week: week[1]) for pick in (min, max))
    lent = [lent_h / idle_h for _, idle_h, lent_h in weeks.iter_rows() if idle_h > 0]
    least, most = (share(min(lent)), share(max(lent))) if lent else (share(None), share(None))
    return (
        f"Of the {count(len(weeks), 'whole week')}, that of {low} had the least idle node-hours "
        f"({amount(low_h, high_h)}) and that of {high} the most ({amount(high_h)}); "
        f"{least} to {most} of them were lent."
    )


def _hours(holes: Holes, timeline: Timeline, zone: tzinfo) -> pl.DataFrame:
    """Clock hours of the window: how long each is, its node-seconds, and where it lies in day and week."""
    edges_s = clock_hours(holes.from_s, holes.until_s)
    lasts_s = np.diff(edges_s)
    idle, lent = node_means(holes, timeline, edges_s)
    # By its middle: where clocks change, an hour begins in one hour of the day and ends in another.
    middle = pl.from_epoch(pl.Series((edges_s[1:] + edges_s[:-1]) / 2), "s").dt.replace_time_zone("UTC")
    at = middle.dt.convert_time_zone(str(zone))
    return pl.DataFrame(
        {
            "lasts_s": lasts_s,
            "idle_s": idle * lasts_s,
            "lent_s": lent * lasts_s,
            "hour": at.dt.hour(),
            "weekday": at.dt.weekday() - 1,
            "monday": at.dt.truncate("1w").dt.date(),
        }
    )


def _means(hours: pl.DataFrame, group: str, groups: int) -> Iterator[Floats]:
    """Idle and lent nodes on average, by hour or weekday; one that the window does not have counts as 0."""
    number = hours[group].to_numpy()
    lasts_s = np.maximum(np.bincount(number, hours["lasts_s"], groups), 1e-9)
    return (np.bincount(number, hours[name], groups) / lasts_s for name in ("idle_s", "lent_s"))
