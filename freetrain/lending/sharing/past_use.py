"""Past use: what users had before fades, and tilts their shares a little."""

from __future__ import annotations

import math
from collections.abc import Mapping

LEAST_TILT = 0.5
"""However much somebody has had, his weight is never below this part of that of who had least."""

_STEPS = 8
"""Tilts are multiples of 1/8, so that small changes of past use move no node."""

_SMALL = 0.01
"""Use below this part of what all nodes together give in a half-life makes no difference."""


def faded_hours(from_s: float, until_s: float, now_s: float, half_life_s: float) -> float:
    """Node-hours of one node from then until then, each of which counts half as much after every half-life."""
    if until_s <= from_s:
        return 0.0
    rate = math.log(2) / half_life_s
    return (math.exp(-rate * (now_s - until_s)) - math.exp(-rate * (now_s - from_s))) / rate / 3600


def tilts(hours: Mapping[str, float], nodes: int, half_life_s: float) -> Mapping[str, float]:
    """Weights from :data:`LEAST_TILT` to 1 of who had these node-hours, faded: 1 for who had least.

    Where everybody had about the same all weigh the same. As no weight is below half of any other, nobody's share
    is ever below half of an equal one.

    Args:
        hours: of each that takes part.
        nodes: of the whole partition.
        half_life_s: in which past use fades to one half.
    """
    if not hours:
        return {}
    least = min(hours.values())
    small = _SMALL * nodes * half_life_s / 3600 / len(hours)
    usual = max(sum(hours.values()) / len(hours), small, 1e-9)
    return {name: _in_steps(2.0 ** (-(each - least) / usual)) for name, each in hours.items()}


def _in_steps(tilt: float) -> float:
    return max(LEAST_TILT, round(tilt * _STEPS) / _STEPS)
