"""Curves: what throughput a trainer is believed to have, by what was seen of it and what its owner says."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from freetrain.core.known_trainer import KnownTrainer
from freetrain.core.throughput import Curve, fit_throughput, rates

_PRIOR_LOSS = 0.03
"""Until a trainer was seen at two sizes, each node is taken to cost the others this share of their speed."""

_TINY = 1e-300
"""Stands for a rate of 0, so that one can be divided by it."""

_STEP = 1.25
"""Ratio of the sizes at which a long curve keeps its points."""


def linear_curve(most_nodes: int) -> Curve:
    """Linear scaling: N nodes do as much as N times one."""
    return ((1, 1.0), (most_nodes, float(most_nodes))) if most_nodes > 1 else ((1, 1.0),)


def prior_curve(most_nodes: int) -> Curve:
    """The assumed rate of a trainer that was never measured, in samples/s of one node."""
    return tuple((nodes, _prior_rate(nodes)) for nodes in range(1, most_nodes + 1))


def _prior_rate(nodes: int) -> float:
    return nodes / (1 + _PRIOR_LOSS * (nodes - 1))


def thinned(curve: Curve) -> Curve:
    """The curve by a few of its points: every piece between two points costs the solver, and it bends slowly."""
    kept = [curve[0]]
    for point in curve[1:]:
        if point[0] >= _STEP * kept[-1][0] or point == curve[-1]:
            kept.append(point)
    return tuple(kept)


def believed(curve: Curve) -> Curve:
    """The curve, nowhere faster than linear from its first point: more is never believed."""
    nodes, rate = next(point for point in curve if point[0] > 0)
    return tuple((size, min(speed, size * (rate / nodes))) for size, speed in curve)


def curve_of(trainer: KnownTrainer, given: Curve, most_nodes: int) -> Curve:
    """Throughput of a trainer: as seen, where it was; elsewhere as its owner says, as fitted, or as assumed.

    What the owner says is believed up to linear scaling; as soon as anything was seen it gives the shape alone.
    One measured size sets the scale.
    """
    sizes = {observation.nodes for observation in trainer.observations}
    if given:
        shape = believed(given)
        return believed(_scaled_to(_seen_rates(trainer, most_nodes), shape)) if sizes else shape
    if len(sizes) > 1:
        return believed(thinned(fit_throughput(trainer.observations, most_nodes).curve))
    prior = thinned(prior_curve(max(most_nodes, 1)))
    if not sizes:
        return prior
    seen = fit_throughput(trainer.observations, most_nodes).curve[0]
    scale = seen[1] / _prior_rate(seen[0])
    return tuple((nodes, rate * scale) for nodes, rate in prior)


def _seen_rates(trainer: KnownTrainer, most_nodes: int) -> Mapping[int, float]:
    """Size at which it was seen → samples/s."""
    sizes = {observation.nodes for observation in trainer.observations}
    fitted = fit_throughput(trainer.observations, max(most_nodes, *sizes, 1)).curve
    return {nodes: rate for nodes, rate in fitted if nodes in sizes}


def _scaled_to(seen: Mapping[int, float], shape: Curve) -> Curve:
    """The shape through what was seen: in between and beyond, scaled as at the nearest sizes that were seen."""
    sizes = sorted(seen)
    claimed = rates(shape, sizes[-1])
    ratios = [seen[size] / max(float(claimed[size]), _TINY) for size in sizes]
    points = {nodes: rate * float(np.interp(nodes, sizes, ratios)) for nodes, rate in shape if nodes > 0}
    return tuple(sorted((points | dict(seen)).items()))
