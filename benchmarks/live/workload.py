"""A scripted workload: a sample log's sizes and gaps, squeezed into minutes."""

from __future__ import annotations

import csv
import gzip
import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import accumulate
from pathlib import Path

SAMPLE_LOG = Path(__file__).parents[2] / "sample_logs" / "small-cluster.sacct.gz"
SHORTEST_S, LONGEST_S = 5.0, 180.0


@dataclass(frozen=True, slots=True)
class SiteJob:
    """A job of the site's.

    Attributes:
        at_s: when it is submitted, from the beginning.
        nodes: how many it wants.
        run_s: how long it runs.
        limit_min: its time limit.
        gpus: that it wants of each node, as 2 or a100:2; empty: it asks for no part of a node.
        partition: in which.
    """

    at_s: float
    nodes: int
    run_s: float
    limit_min: int
    gpus: str = ""
    partition: str = "main"


@dataclass(frozen=True, slots=True)
class Sample:
    """What is taken from a log's job.

    Attributes:
        submitted_s: when.
        nodes: how many.
        run_s: how long it ran.
    """

    submitted_s: float
    nodes: int
    run_s: float


def draw(samples: list[Sample], nodes: int, duration_s: float, load: float, seed: int) -> list[SiteJob]:
    """A stretch of the log: sizes cut to the machine, run times squeezed to seconds, gaps to the wanted load.

    Args:
        samples: the log's jobs.
        nodes: of the machine.
        duration_s: submissions end by then.
        load: share of the machine that the jobs would fill if none had to wait.
        seed: which stretch.
    """
    dice = random.Random(seed)
    ordered = sorted(samples, key=lambda one: one.submitted_s)
    shorter, longer = (
        math.log(max(1.0, min(one.run_s for one in ordered))),
        math.log(max(o.run_s for o in ordered)),
    )
    first = dice.randrange(len(ordered) // 2)
    jobs: list[tuple[float, int, float]] = []
    work = 0.0
    for before, one in zip(ordered[first:], ordered[first + 1 :], strict=False):
        size = min(nodes, one.nodes)
        place = (math.log(max(one.run_s, 1.0)) - shorter) / (longer - shorter)
        run_s = round(SHORTEST_S * (LONGEST_S / SHORTEST_S) ** place, 1)
        jobs.append((min(one.submitted_s - before.submitted_s, 3600.0), size, run_s))
        work += size * run_s
        if work >= load * nodes * duration_s:
            break
    squeeze = duration_s / (sum(gap_s for gap_s, _, _ in jobs) or 1.0)
    found, at_s = [], 0.0
    for gap_s, size, run_s in jobs:
        found.append(SiteJob(round(at_s, 2), size, run_s, math.ceil(run_s * dice.uniform(1.2, 3.0) / 60)))
        at_s += gap_s * squeeze
    return found


def shifted(jobs: Sequence[SiteJob], most_s: float, seed: int) -> list[SiteJob]:
    """The same jobs in the same order, each submitted up to so much later."""
    dice = random.Random(seed)
    later_s = accumulate((one.at_s + dice.uniform(0, most_s) for one in jobs), max)
    return [replace(one, at_s=round(at_s, 2)) for one, at_s in zip(jobs, later_s, strict=True)]


def lengthened(jobs: Sequence[SiteJob], most_s: float, seed: int) -> list[SiteJob]:
    """The same jobs, each of which runs up to so much longer: what they free comes late, as from a fragment."""
    dice = random.Random(-seed)
    return [replace(one, run_s=round(one.run_s + dice.uniform(0, most_s), 2)) for one in jobs]


def read_samples(log: Path) -> list[Sample]:
    """The jobs of a ``sacct -P`` log that ran and ended."""
    with gzip.open(log, "rt") as stream:
        rows = [row for row in csv.DictReader(stream, delimiter="|", quoting=csv.QUOTE_NONE) if _ran(row)]
    return [
        Sample(_time_s(row["Submit"]), int(row["NNodes"]), max(1.0, _time_s(row["End"]) - _time_s(row["Start"])))
        for row in rows
    ]


def _ran(row: dict[str, str]) -> bool:
    return "." not in row["JobID"] and all((row[name] or "U")[0].isdigit() for name in ("Submit", "Start", "End"))


def _time_s(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()
