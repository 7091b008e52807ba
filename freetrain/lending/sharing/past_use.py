"""Past use: the node-hours that users had fade, and tilt their shares a little."""

from __future__ import annotations

import math
from collections.abc import Mapping

LEAST_TILT = 0.5
"""Least weight of a user, however much it has had, as a part of the weight of the user that had least."""

# In steps of 1/8, so that small changes of past use move no node.
_STEPS = 8

# Past use below this part of what all nodes together give in a half-life makes no difference.
_SMALL = 0.01


def faded_hours(from_s: float, until_s: float, now_s: float, half_life_s: float) -> float:
    """Node-hours of one node over a range of time, each of which counts half as much after every half-life."""
    if until_s <= from_s:
        return 0.0
    # The integral of exp(-rate * t) over the range, t before now.
    rate = math.log(2) / half_life_s
    return (math.exp(-rate * (now_s - until_s)) - math.exp(-rate * (now_s - from_s))) / rate / 3600


class PastUse:
    """Node-hours that users had, faded, summed up from one instant to the next.

    Between two instants a user has as many nodes as at the later one.
    """

    def __init__(self, half_life_s: float, now_s: float) -> None:
        self._half_life_s = half_life_s
        self._as_of_s = now_s
        self._hours: dict[str, float] = {}

    def after(self, now_s: float, nodes: Mapping[str, int]) -> Mapping[str, float]:
        """User → node-hours until now."""
        each = faded_hours(self._as_of_s, now_s, now_s, self._half_life_s)
        fade = 0.5 ** ((now_s - self._as_of_s) / self._half_life_s)
        self._hours = {
            user: self._hours.get(user, 0.0) * fade + nodes.get(user, 0) * each
            for user in dict.fromkeys((*self._hours, *nodes))
        }
        self._as_of_s = now_s
        return dict(self._hours)


def tilts(hours: Mapping[str, float], nodes: int, half_life_s: float) -> Mapping[str, float]:
    """Name → weight by past use, from :data:`LEAST_TILT` to 1; 1 for the name that had least.

    If all had about the same, all weigh the same. Since no weight is below half of another, no share is ever below
    half of an equal one.
    """
    if not hours:
        return {}
    least = min(hours.values())
    small = _SMALL * nodes * half_life_s / 3600 / len(hours)
    usual = max(sum(hours.values()) / len(hours), small, 1e-9)
    exact = {name: 2.0 ** (-(each - least) / usual) for name, each in hours.items()}
    return {name: max(LEAST_TILT, round(tilt * _STEPS) / _STEPS) for name, tilt in exact.items()}
