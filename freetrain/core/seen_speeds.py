r"""Seen speeds: how fast a trainer was seen to be on nodes of different kinds, beside what its owner says. Pure.

Observations that were made on the same number of nodes of two kinds tell how fast one is beside the other. One
kind, the fastest by the owner's word of those that were seen, keeps the speed that he says; the other's is

.. math:: \ln s = \frac{\ln s_\mathrm{said} + w \ln (s_0\,r / r_0)}{1 + w}

with *r* its rates and :math:`r_0` those of the first, and *w* how many observations there are of it: what the
owner says counts as much as one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from freetrain.core.throughput_fit import Observation, mean_rates, usable

ELSEWHERE = ""
"""The kind of nodes that its owner does not name."""

_MOST_TIMES = 10
"""So many observations outweigh what the owner says as far as any number does."""
_LEAST_SPEED, _MOST_SPEED = 0.01, 100.0


def kind_of_nodes(nodes: Iterable[Iterable[str]], said: Mapping[str, float]) -> str:
    """The kind by whose speed a trainer goes: the slowest that its owner names of any of its nodes.

    Args:
        nodes: features and types of GPUs of each of its nodes.
        said: what it is named → how fast the owner says that it is there.
    """
    kinds = {_kind_of(names, said) for names in nodes}
    return min(kinds, key=lambda kind: said.get(kind, 1.0), default=ELSEWHERE)


def _kind_of(names: Iterable[str], said: Mapping[str, float]) -> str:
    return min((name for name in names if name in said), key=lambda name: (said[name], name), default=ELSEWHERE)


def seen_speeds(observations: Iterable[Observation], said: Mapping[str, float]) -> Mapping[str, float]:
    """Kind that its owner names → how fast the trainer is believed to be there.

    Args:
        observations: what was seen of it.
        said: kind → how fast its owner says that it is.
    """
    speeds = {ELSEWHERE: 1.0, **said}
    seen = {kind: [one for one in usable(observations) if one.kind == kind] for kind in speeds}
    known = [kind for kind in speeds if seen[kind]]
    if len(known) < 2:
        return said
    first = max(known, key=lambda kind: speeds[kind])
    rates = mean_rates(seen[first])
    found = {kind: _believed(seen[kind], rates, speeds[first], speeds[kind]) for kind in known if kind != first}
    scale = 1.0 / found.get(ELSEWHERE, 1.0)  # nodes of no named kind have speed 1, whatever was seen
    return {kind: _sober(found.get(kind, speed) * scale) for kind, speed in said.items()}


def at_speed_1(observations: Iterable[Observation], speeds: Mapping[str, float]) -> tuple[Observation, ...]:
    """What would have been seen at speed 1; what was seen on kinds that are not named any more is left out."""
    known = {ELSEWHERE: 1.0, **speeds}
    return tuple(
        replace(one, samples_per_s=one.samples_per_s / known[one.kind], kind=ELSEWHERE) if one.kind else one
        for one in observations
        if one.kind in known
    )


def _believed(seen: Sequence[Observation], rates: Mapping[int, float], first: float, said: float) -> float:
    """The speed of a kind, where the first one has these rates."""
    alike = [one for one in seen if one.nodes in rates]
    if not alike:
        return said
    ratios = [first * one.samples_per_s / rates[one.nodes] for one in alike]
    weights = [one.weight for one in alike]
    mean = sum(weight * math.log(ratio) for weight, ratio in zip(weights, ratios, strict=True)) / sum(weights)
    times = min(len(alike), _MOST_TIMES)
    return math.exp((math.log(said) + times * mean) / (1 + times))


def _sober(speed: float) -> float:
    """Within bounds, and such that a little more or less changes nothing of what is decided."""
    return float(f"{min(max(speed, _LEAST_SPEED), _MOST_SPEED):.2g}")
