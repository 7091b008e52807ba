"""When nodes are busy, whatever kind of log tells it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from freetrain.core.holes import Holes, find_holes


@dataclass(frozen=True, slots=True)
class BusyTimes:
    """When nodes are busy, a row for each node and interval.

    A job keeps all of its nodes busy for the same interval, so intervals stand beside the rows and not in them.

    Attributes:
        node_names: the nodes.
        node: position in ``node_names``, shape (rows,).
        interval: position in ``start_s`` and ``end_s``, shape (rows,).
        start_s: start of each interval; -inf where a node is busy from the first; shape (intervals,).
        end_s: its end; inf where a node is busy to the last.
    """

    node_names: tuple[str, ...]
    node: NDArray[np.int32]
    interval: NDArray[np.int32]
    start_s: NDArray[np.float64]
    end_s: NDArray[np.float64]

    def and_also(
        self, node: NDArray[np.int32], start_s: NDArray[np.float64], end_s: NDArray[np.float64]
    ) -> BusyTimes:
        """The same, and behind them rows with an interval each."""
        more = np.arange(len(self.start_s), len(self.start_s) + len(node), dtype=np.int32)
        return BusyTimes(
            self.node_names,
            np.concatenate([self.node, node]),
            np.concatenate([self.interval, more]),
            np.concatenate([self.start_s, start_s]),
            np.concatenate([self.end_s, end_s]),
        )

    def holes(self, from_s: float, until_s: float) -> Holes:
        """What is left of a window."""
        return find_holes(self.node_names, self.node, self.start_s, self.end_s, from_s, until_s, self.interval)


def busy_one_by_one(
    node_names: tuple[str, ...], node: NDArray[np.int32], start_s: NDArray[np.float64], end_s: NDArray[np.float64]
) -> BusyTimes:
    """Busy times of which each row has an interval of its own."""
    return BusyTimes(node_names, node, np.arange(len(node), dtype=np.int32), start_s, end_s)
