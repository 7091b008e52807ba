"""What the report says in words: headline, key figures, captions, notes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from freetrain.core.holes import SECONDS_PER_HOUR, Holes
from freetrain.replay.course import ReplayRecord
from freetrain.replay.logs.model import RowCount
from freetrain.replay.outcome import Outcome
from freetrain.replay.report.words import NOTHING, count, duration, large, moment, number, share

_DAY_S = 86_400


@dataclass(frozen=True, slots=True)
class Tile:
    """A key figure: the figure, what it is, and what it means."""

    figure: str
    name: str
    meaning: str


@dataclass(frozen=True, slots=True)
class Part:
    """A part of the idle node-hours; ``kind`` decides its colour."""

    kind: str
    name: str
    node_hours: str
    share: str
    percent: float


def headline(outcome: Outcome, duration_s: float) -> str:
    """The result in one sentence."""
    span = f"In {duration(duration_s)}"
    if outcome.idle_node_hours <= 0:
        return f"{span}, no node was ever idle."
    idle = f"{span}, {count(outcome.idle_node_hours, 'idle node-hour')}"
    if outcome.samples <= 0:
        return f"{idle} could have been lent, but no trainer got anywhere on them."
    trained = f"{idle} could have trained {count_large(outcome.samples, 'sample')}"
    if outcome.u_dedicated is None:
        return f"{trained}."
    nodes = count(outcome.dedicated_nodes, "dedicated node")
    return f"{trained}: {share(outcome.u_dedicated)} of what the same trainers reach on {nodes}."


def ran_out(record: ReplayRecord) -> str:
    """Says so where the trainers were done before the window was over; empty where they were not."""
    done_s = [run.completed_s for run in record.runs if run.completed_s is not None]
    if not done_s or len(done_s) < len(record.runs) or max(done_s) >= record.holes.until_s:
        return ""
    trainers = f"All {count(len(done_s), 'trainer')}" if len(done_s) > 1 else "The only trainer"
    return (
        f"{trainers} had reached {'their targets' if len(done_s) > 1 else 'its target'} by {moment(max(done_s))}: "
        "nobody was left to use the nodes that were idle afterwards."
    )


def count_large(value: float, noun: str) -> str:
    """A large number in words with its noun."""
    return f"{large(value)} {noun if large(value) == '1' else noun + 's'}"


def tiles(outcome: Outcome, holes: Holes) -> tuple[Tile, ...]:
    """The key figures."""
    machine_hours = len(holes.node_names) * holes.duration_s / SECONDS_PER_HOUR
    lent = outcome.lent_node_hours
    return (
        Tile(
            number(outcome.idle_node_hours),
            "idle node-hours",
            f"{share(_part(outcome.idle_node_hours, machine_hours))} of the machine’s {number(machine_hours)}",
        ),
        Tile(
            share(_part(lent, outcome.idle_node_hours)),
            "of them lent",
            f"{count(lent, 'node-hour')} went to {count(outcome.trainers_admitted, 'trainer')}",
        ),
        Tile(
            share(outcome.u_dedicated),
            "of a dedicated machine",
            _compared(outcome),
        ),
        _evictions(outcome, holes.duration_s),
        Tile(
            share(_part(lent - outcome.useful_node_hours, lent)),
            "of lent time lost",
            f"to {count(outcome.evictions, 'eviction')}, {count(outcome.rescales, 'rescale')} "
            f"and {count(outcome.starts, 'start')}",
        ),
    )


def _compared(outcome: Outcome) -> str:
    compared = f"the same trainers on {count(outcome.dedicated_nodes, 'node')} of their own"
    if outcome.u_oracle is None:
        return compared
    return f"{compared}; {share(outcome.u_oracle)} of the best division at every instant"


def _evictions(outcome: Outcome, duration_s: float) -> Tile:
    meaning = "times one of the site’s jobs took its node back from a trainer, at once"
    if duration_s < 2 * _DAY_S or not outcome.evictions:
        return Tile(number(outcome.evictions), "eviction" if outcome.evictions == 1 else "evictions", meaning)
    return Tile(number(outcome.evictions / duration_s * _DAY_S), "evictions a day", meaning)


def parts_of_idle_time(outcome: Outcome) -> tuple[Part, ...]:
    """Where the idle node-hours went; nothing where there were none."""
    lost = outcome.lent_node_hours - outcome.useful_node_hours
    parts = (
        ("useful", "trained", outcome.useful_node_hours),
        ("lost", "lost to evictions, rescales and starts", lost),
        ("unlent", "not lent", max(outcome.idle_node_hours - outcome.lent_node_hours, 0.0)),
    )
    idle = outcome.idle_node_hours
    if idle <= 0:
        return ()
    return tuple(
        Part(
            kind,
            name,
            count(hours, "node-hour"),
            share(hours / idle),
            round(min(max(100 * hours / idle, 0), 100), 3),
        )
        for kind, name, hours in parts
    )


def about_trainers(record: ReplayRecord, shown: int) -> str:
    """Which trainers the table shows, and how many of all reached their target."""
    admitted = len(record.runs)
    done = sum(run.completed_s is not None for run in record.runs)
    if admitted == 1:
        return f"One trainer was admitted; it {'reached' if done else 'did not reach'} its target."
    which = (
        f"the {number(shown)} with the most samples" if shown < admitted else "those with the most samples first"
    )
    reached = "none" if not done else "all" if done == admitted else number(done)
    return (
        f"{count(admitted, 'trainer')} were admitted and {reached} of them reached their target. "
        f"The table shows {which}; where they are equal, those admitted first."
    )


def about_holes(holes: Holes) -> str:
    """The lengths of the holes in a sentence or two."""
    if not len(holes):
        return "There was no hole."
    lengths_s = holes.length_s
    if len(holes) == 1:
        return f"There was one hole; it lasted {duration(lengths_s[0])}."
    median_s = float(np.median(lengths_s))
    long = lengths_s >= SECONDS_PER_HOUR
    held = share(float(lengths_s[long].sum() / lengths_s.sum()))
    return (
        f"There were {count(len(holes), 'hole')}; half of them lasted less than {duration(median_s)}, "
        f"and the longest {duration(float(lengths_s.max()))}. "
        f"Holes of an hour or more were {share(float(long.mean()))} of all holes and held {held} of the idle time."
    )


def about_rows(rows: RowCount) -> str:
    """What became of the log's rows."""
    ignored = sum(rows.ignored.values())
    reasons = "; ".join(f"{reason}: {number(times)}" for reason, times in rows.ignored.items() if times)
    return (
        f"Of {count(rows.read, 'row')}, {number(rows.used)} {_was(rows.used)} used, "
        f"{number(ignored)} {_was(ignored)} ignored{f' ({reasons})' if reasons else ''} "
        f"and {number(rows.rejected)} {_was(rows.rejected)} rejected."
    )


def shown_figure(name: str, value: object) -> str:
    """A figure of the outcome as its definition's neighbour."""
    if value is None:
        return NOTHING
    if isinstance(value, dict):
        return ", ".join(f"{key}: {number(times)}" for key, times in value.items()) or NOTHING
    if not isinstance(value, int | float):
        return str(value)
    if name.startswith("solve_"):
        return f"{1000 * value:,.3g} ms"
    if name.endswith("_lost_s"):
        return f"{value:,.0f} s"
    return share(value) if name.startswith("u_") else count_or_large(name, value)


def count_or_large(name: str, value: float) -> str:
    """Samples in words, everything else in digits."""
    return large(value) if name.endswith("samples") else number(value)


def _part(part: float, whole: float) -> float | None:
    return part / whole if whole > 0 else None


def _was(times: int) -> str:
    return "was" if times == 1 else "were"
