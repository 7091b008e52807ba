"""Throughput curves: how many samples per second a trainer makes on how many nodes, given or fitted.

Fitted from what trainers were seen to do, so that their owners need not know the scalability of their models. Two
models of the time t(n) of one sample on n nodes, both linear in their coefficients:

    Amdahl            t(n) = a + b/n                    a part a that does not scale
    ring all-reduce   t(n) = b/n + c·(n-1)/n + d·(n-1)  bandwidth (c) and latency (d) of exchanging gradients

Coefficients are not negative; they come from least squares on relative errors, so that small worlds count as much
as large ones. Where a size was measured, the curve goes through the measurement.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from itertools import combinations, pairwise

import numpy as np
from numpy.typing import NDArray

from freetrain.core.bounds import NODES, RATE, SEEN_RATE, SEEN_WEIGHT

Curve = tuple[tuple[int, float], ...]
"""Measured points (nodes, samples/s) in ascending order of nodes; linear between them and from (0, 0)."""
Floats = NDArray[np.float64]


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


class ScalingModel(StrEnum):
    """Model by which a curve was continued beyond the measured points."""

    MEASURED = "measured"
    AMDAHL = "amdahl"
    RING = "ring"


@dataclass(frozen=True, slots=True)
class Observation:
    """Samples/s seen on some nodes.

    Attributes:
        weight: weight among observations, for example the seconds it was observed for.
        kind: of the nodes, as the trainer's owner names it; empty: a kind without a name.
        began_s: time at which it began, UTC epoch seconds; 0: that is not kept.
    """

    nodes: int
    samples_per_s: float
    weight: float = 1.0
    kind: str = ""
    began_s: float = field(default=0.0, compare=False)


def usable(observations: Iterable[Observation]) -> tuple[Observation, ...]:
    """Observations that can be believed: whole nodes, rates and weights above zero, all within bounds."""
    return tuple(
        observation
        for observation in observations
        # Not isinstance(): True is an int, too.
        if type(observation.nodes) is int
        and observation.nodes in NODES
        and observation.samples_per_s in SEEN_RATE
        and observation.weight in SEEN_WEIGHT
    )


@dataclass(frozen=True, slots=True)
class FittedCurve:
    """A curve, and how far to trust it.

    Attributes:
        curve: (nodes, samples/s) at every size asked for.
        model: model that continues it between and beyond the measured sizes.
        coefficients: coefficients of the model, in seconds per sample.
        relative_error: root mean square of (model - measured) / measured over the measured sizes; if there are
            no more sizes than coefficients the model goes through all of them, and it says nothing (nan).
    """

    curve: Curve
    model: ScalingModel
    coefficients: tuple[float, ...]
    observations: int
    sizes: int
    relative_error: float


def fit_throughput(observations: Iterable[Observation], most_nodes: int) -> FittedCurve:
    """The curve for 1 … ``most_nodes`` nodes that the observations suggest.

    With one size only, nothing is known about scaling: the curve is linear up to it and flat beyond, so that
    growing is never promised to be worth anything. Otherwise the model with the smaller error, corrected for its
    number of coefficients, fills the gaps.

    Raises:
        ValueError: there is no usable observation.
    """
    seen = usable(observations)
    if not seen:
        raise ValueError("no observation to fit a curve to: each needs nodes, samples/s and weight above zero")
    measured = mean_rates(seen)
    nodes = np.array(list(measured), dtype=np.float64)
    rates = np.array(list(measured.values()), dtype=np.float64)
    # A model with more coefficients than sizes would fit anything.
    models = {model: terms for model, terms in _TERMS.items() if terms(np.ones(1)).shape[1] <= len(measured)}
    fits = [_fit(model, terms, nodes, rates) for model, terms in models.items()]
    fits = [fit for fit in fits if np.isfinite(fit[0])]
    if not fits:
        return FittedCurve(
            tuple(measured.items()), ScalingModel.MEASURED, (), len(seen), len(measured), float("nan")
        )
    _, model, coefficients, error = min(fits, key=lambda fit: fit[0])
    sizes = np.arange(1, most_nodes + 1, dtype=np.float64)
    # A time of almost nothing, fitted to rates that differ by many orders of magnitude, is not believed either.
    modelled = 1.0 / np.clip(_TERMS[model](sizes) @ coefficients, 1 / SEEN_RATE.most, 1 / SEEN_RATE.least)
    # Below the smallest size nothing was seen: promise no more there than the best that was.
    modelled = np.where(sizes < nodes[0], np.minimum(modelled, rates.max()), modelled)
    curve = tuple(
        (int(size), measured.get(int(size), float(rate))) for size, rate in zip(sizes, modelled, strict=True)
    )
    beyond = tuple((size, rate) for size, rate in measured.items() if size > most_nodes)
    return FittedCurve(curve + beyond, model, tuple(map(float, coefficients)), len(seen), len(measured), error)


def mean_rates(seen: Sequence[Observation]) -> dict[int, float]:
    """Weighted mean of the rates at every size, in ascending order of size."""
    rates: dict[int, float] = {}
    for nodes in sorted({observation.nodes for observation in seen}):
        here = [observation for observation in seen if observation.nodes == nodes]
        rates[nodes] = sum(observation.samples_per_s * observation.weight for observation in here) / sum(
            observation.weight for observation in here
        )
    return rates


_TERMS: dict[ScalingModel, Callable[[Floats], Floats]] = {
    ScalingModel.AMDAHL: lambda nodes: np.stack([np.ones_like(nodes), 1 / nodes], axis=1),
    ScalingModel.RING: lambda nodes: np.stack([1 / nodes, (nodes - 1) / nodes, nodes - 1], axis=1),
}
"""Columns of each model, one for each coefficient, by nodes."""


def _fit(
    model: ScalingModel, terms: Callable[[Floats], Floats], nodes: Floats, rates: Floats
) -> tuple[float, ScalingModel, Floats, float]:
    # Each row divided by the measured time makes the residual relative; times are counted in one near all of them.
    unit_s = float(1 / np.sqrt(rates.min() * rates.max()))
    matrix = terms(nodes) * (rates * unit_s)[:, None]
    coefficients, square = non_negative_least_squares(matrix, np.ones(len(nodes)), terms(np.ones(1))[0])
    coefficients = coefficients * unit_s
    spare = len(nodes) - matrix.shape[1]
    # By degree of freedom, so that a further coefficient has to earn its place.
    corrected = (square / max(spare, 1)) ** 0.5
    error = (square / len(nodes)) ** 0.5 if spare > 0 else float("nan")
    return corrected, model, coefficients, error


def non_negative_least_squares(matrix: Floats, target: Floats, alone: Floats) -> tuple[Floats, float]:
    """The best coefficients ≥ 0 with ``alone`` @ coefficients > 0, and their squared error.

    A step takes some time on one node, too, whose terms are ``alone``.
    """
    # A handful of columns: all subsets can be tried, and the best without a negative coefficient is the optimum.
    columns = matrix.shape[1]
    best, best_square = np.zeros(columns), float("inf")
    for count in range(columns, 0, -1):
        for chosen in combinations(range(columns), count):
            try:
                solution = np.linalg.lstsq(matrix[:, chosen], target, rcond=None)[0]
            except np.linalg.LinAlgError:  # the decomposition is an iteration, and may come to no end
                continue
            if not (solution >= 0).all() or not alone[list(chosen)] @ solution > 0:
                continue
            square = float(np.sum((matrix[:, chosen] @ solution - target) ** 2))
            if square < best_square:
                best = np.zeros(columns)
                best[list(chosen)] = solution
                best_square = square
    return best, best_square
