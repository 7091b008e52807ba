"""Nodes that fail at random while they are idle, which no log shows as it would have been."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from freetrain.durations import show_duration
from freetrain.replay.logs.busy import BusyTimes
from freetrain.replay.logs.window import Window

_SEED = 2023


@dataclass(frozen=True, slots=True)
class Failures:
    """How often nodes fail.

    Attributes:
        every_s: idle time of a node between two failures, on average.
        repair_s: how long a node is out of service then.
    """

    every_s: float
    repair_s: float


def with_failures(busy: BusyTimes, window: Window, failures: Failures) -> tuple[BusyTimes, str]:
    """Let nodes fail, at the same instants each time, and say what that takes.

    Only idle time counts: what became of jobs the log says, and a node that failed with one is not idle.
    """
    holes = busy.holes(window.from_s, window.until_s)
    upto_s = np.cumsum(holes.length_s)
    idle_s = float(upto_s[-1]) if len(holes) else 0.0
    chance = np.random.default_rng(_SEED)
    at_s = np.sort(chance.uniform(0.0, idle_s, chance.poisson(idle_s / failures.every_s)))
    hole = np.searchsorted(upto_s, at_s, side="right").clip(max=max(len(holes) - 1, 0))
    start_s = holes.end_s[hole] - (upto_s[hole] - at_s)
    failing = busy.and_also(holes.node[hole], start_s, start_s + failures.repair_s)
    gone = holes.idle_node_hours - failing.holes(window.from_s, window.until_s).idle_node_hours
    times = f"{len(at_s):,} time{'s' * (len(at_s) != 1)}"
    every, repair = show_duration(failures.every_s), show_duration(failures.repair_s)
    return failing, (
        f"Idle nodes failed at random {times}, each once in {every} of idle time and for {repair} (--mtbf, "
        f"--repair): {gone:,.1f} node-hours are not idle for that."
    )
