"""Probabilities that are put right as their outcomes become known.

Where forecasts of about this probability came true more often so far, a forecast is raised until it reaches a
probability that came true as often as it promises, and lowered likewise (after V. Vovk, A. Takemura, G. Shafer,
Defensive forecasting, 2005). What is known of a probability are the forecasts near it, those farther away counting
less.
"""

from __future__ import annotations

from collections import deque

import numpy as np

_STEPS = 100
_NEAR = 0.05
_ALLOWED = 0.03
"""What came may differ so much from a probability: less would be chance."""
_PROBABILITIES = np.linspace(0.0, 1.0, _STEPS + 1)
_NEARNESS = np.exp(-0.5 * ((_PROBABILITIES[:, None] - _PROBABILITIES[None, :]) / _NEAR) ** 2)


class Calibrator:
    """Forecasts of one event so far ahead, and what came of those whose time is over.

    Args:
        ahead_s: how far ahead.
    """

    def __init__(self, ahead_s: float) -> None:
        self._ahead_s = ahead_s
        self._forecasts = np.zeros(_STEPS + 1)
        self._too_low = np.zeros(_STEPS + 1)
        self._open: deque[tuple[float, float, int, float]] = deque()
        self._noted = self._instants = 0
        self._bias = np.zeros(_STEPS + 1)

    def learn(self, now_s: float) -> None:
        """Learn from the forecasts whose outcome is known by now."""
        self._instants += 1
        while self._open and self._open[0][0] + self._ahead_s <= now_s:
            _, probability, count, came = self._open.popleft()
            near = _NEARNESS[round(probability * _STEPS)]
            self._forecasts += near * count
            self._too_low += near * (came - probability * count)
        # As if the forecasts of an instant more had come true as often as they said.
        self._bias = self._too_low / (self._forecasts + max(self._noted / self._instants, 1.0))

    def corrected(self, probability: float) -> float:
        """A probability, put right."""
        at = round(probability * _STEPS)
        step = int(np.sign(self._bias[at]))
        if abs(self._bias[at]) <= _ALLOWED:
            return probability
        while 0 <= at + step <= _STEPS and step * self._bias[at] > _ALLOWED:
            at += step
        return float(_PROBABILITIES[at])

    def note(self, now_s: float, probability: float, count: int, came: float) -> None:
        """Note forecasts that were made now.

        Args:
            now_s: now.
            probability: theirs.
            count: how many there are.
            came: of how many the event will come, which counts when it is known.
        """
        self._noted += count
        self._open.append((now_s, probability, count, came))
