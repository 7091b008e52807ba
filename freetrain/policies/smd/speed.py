"""How fast workers and parameter servers train together: a model of five coefficients, and its fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class ServerModel:
    """Seconds of a synchronous step on w workers and p servers: a·M/w + b + c·w/p + d·w + e·p.

    Attributes:
        coefficients: a (per sample), b (fixed), c (sending to the servers), d and e (per connection); none is < 0.
        batch: samples of a step over all workers, M.
    """

    coefficients: tuple[float, float, float, float, float]
    batch: float

    def step_s(self, workers: Floats | float, servers: Floats | float) -> Floats:
        """Seconds of a step; for arrays, of each pair."""
        a, b, c, d, e = self.coefficients
        workers, servers = np.asarray(workers, dtype=np.float64), np.asarray(servers, dtype=np.float64)
        step_s: Floats = a * self.batch / workers + b + c * workers / servers + d * workers + e * servers
        return step_s


@dataclass(frozen=True, slots=True)
class Point:
    """A measurement.

    Attributes:
        workers: how many.
        servers: how many.
        step_s: seconds of a step.
    """

    workers: int
    servers: int
    step_s: float


LEAST_POINTS = 5
"""With fewer different sizes the coefficients are not determined."""


def fit_servers(points: Sequence[Point], batch: float) -> ServerModel:
    """The model with the least squares of relative errors, no coefficient below 0.

    With five coefficients all subsets of them can be tried: of those whose free least squares are not negative one
    is the best.

    Raises:
        ValueError: fewer than five different sizes were measured, or a time is not above 0.
    """
    if len({(one.workers, one.servers) for one in points}) < LEAST_POINTS:
        raise ValueError(f"the model needs {LEAST_POINTS} different sizes to be fitted")
    measured_s = np.array([one.step_s for one in points])
    if not (measured_s > 0).all():
        raise ValueError("a step takes more than 0 seconds")
    workers = np.array([one.workers for one in points], dtype=np.float64)
    servers = np.array([one.servers for one in points], dtype=np.float64)
    terms = np.stack([batch / workers, np.ones_like(workers), workers / servers, workers, servers], axis=1)
    a, b, c, d, e = _not_negative(terms / measured_s[:, None]).tolist()
    return ServerModel((a, b, c, d, e), batch)


def _not_negative(terms: Floats) -> Floats:
    """Coefficients ≥ 0 for which the terms come closest to 1."""
    columns = terms.shape[1]
    scale = np.abs(terms).max(axis=0)
    best, least = np.zeros(columns), float(len(terms))
    for count in range(1, columns + 1):
        for chosen in combinations(range(columns), count):
            part = terms[:, chosen] / scale[list(chosen)]
            solution = np.linalg.lstsq(part, np.ones(len(terms)), rcond=None)[0]
            square = float(np.sum((part @ solution - 1) ** 2))
            if (solution >= 0).all() and square < least:
                best, least = np.zeros(columns), square
                best[list(chosen)] = solution / scale[list(chosen)]
    return best
