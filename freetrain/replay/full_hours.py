"""What a replay came to outside the hours in which nearly the whole machine was idle."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from freetrain.core.holes import SECONDS_PER_HOUR
from freetrain.replay.logs.model import EmptyHours
from freetrain.replay.timeline import Timeline


@dataclass(frozen=True, slots=True)
class FullHours:
    """Figures of the hours that are left.

    Attributes:
        idle_node_hours: idle node-hours.
        lent_node_hours: those of them that trainers had.
        samples: what the trainers trained then.
    """

    idle_node_hours: float
    lent_node_hours: float
    samples: float


def without_empty_hours(timeline: Timeline, empty: EmptyHours, until_s: float) -> FullHours:
    """The figures without these hours.

    Args:
        timeline: of a replay of all hours; between two of its instants nothing changes.
        empty: the hours that do not count.
        until_s: end of the window.
    """
    at_s = np.append(timeline.at_s, until_s)
    lasts_s = np.diff(at_s)
    lent_s = np.concatenate([[0.0], np.cumsum(lasts_s * timeline.lent_nodes)])
    trained = np.append(timeline.samples, 0.0)
    trained[-1] = trained[-2] + lasts_s[-1] * timeline.samples_per_s[-1] if len(trained) > 1 else 0.0

    def outside(done: np.ndarray[tuple[int], np.dtype[np.float64]]) -> float:
        within = np.interp(empty.until_s, at_s, done) - np.interp(empty.from_s, at_s, done)
        return float(done[-1] - within.sum())

    return FullHours(
        empty.all_idle_node_hours - empty.idle_node_hours, outside(lent_s) / SECONDS_PER_HOUR, outside(trained)
    )
