"""Throughput curves: how many samples per second a trainer makes on how many nodes."""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from freetrain.core.bounds import NODES, RATE

Curve = tuple[tuple[int, float], ...]
"""Measured points (nodes, samples/s) in ascending order of nodes; linear between them and from (0, 0)."""


def check_curve(curve: Curve) -> None:
    """Raise ValueError with a sentence unless the points make a curve."""
    if not curve:
        raise ValueError("throughput needs at least one [nodes, samples/s] point")
    nodes = [point[0] for point in curve]
    if nodes[0] < 0 or any(right <= left for left, right in pairwise(nodes)):
        raise ValueError(f"throughput points must be in ascending order of nodes, got {nodes}")
    if nodes[-1] > NODES.most:
        raise ValueError(f"throughput is given at {nodes[-1]:,} nodes; {NODES.most:,} is the most")
    if any(rate < 0 for _, rate in curve):
        raise ValueError("throughput must not be negative")
    if not all(rate in RATE for _, rate in curve):
        raise ValueError(f"throughput must be at most {RATE.most:g} samples/s")
    if curve[0][0] == 0 and curve[0][1] != 0:
        raise ValueError(f"throughput at 0 nodes is 0, got {curve[0][1]}")
    if curve[-1][1] == 0:
        raise ValueError(f"throughput at {nodes[-1]} nodes is 0: the trainer would never get on")


@lru_cache(maxsize=4096)
def rates(curve: Curve, most_nodes: int) -> NDArray[np.float64]:
    """Samples/s on 0, 1, …, ``most_nodes`` nodes, shape (most_nodes + 1,); flat beyond the last point.

    The array is shared between callers and cannot be written to.
    """
    points = curve if curve[0][0] == 0 else ((0, 0.0), *curve)
    nodes, samples_per_s = zip(*points, strict=True)
    table: NDArray[np.float64] = np.interp(np.arange(most_nodes + 1), nodes, samples_per_s)
    table.flags.writeable = False
    return table
