"""Trying: all plans that are worth little less than a bound, where they are few, are joined out of choices."""

from __future__ import annotations

from dataclasses import dataclass

from freetrain.policies.solver.best import Best
from freetrain.policies.solver.generating import Relaxed
from freetrain.policies.solver.joining import join
from freetrain.policies.solver.limits import Limits

_MOST_CHOICES = 50_000
"""Choices of all trainers together among which plans are sought."""

_FEW = 100
"""So few choices do not tell how many they come to be."""


@dataclass(slots=True)
class Trying:
    """Tries all plans that are worth at most so much less than a bound, where they may be few.

    Choices come to be more about as the square of the slack.

    Attributes:
        best: the best plan, which comes to be better.
    """

    best: Best
    _choices_by_square: float = 0.0

    def is_worth_it(self, slack: float) -> bool:
        """Whether all plans that are worth at most so much less than a bound may be few."""
        return slack**2 * self._choices_by_square <= _MOST_CHOICES

    def bound_within(self, slack: float, relaxed: Relaxed, limits: Limits) -> float:
        """Find the best of all plans worth at most so much less than a bound; the bound that is left then.

        Args:
            slack: how much less.
            relaxed: what proves the bound.
            limits: on which plans it is one.
        """
        best, bidders = self.best, self.best.bidders
        slack = min(slack, relaxed.bound - best.value)
        if slack <= 0:
            return relaxed.bound
        choices = relaxed.replies.nearly_best(bidders, limits, slack, _MOST_CHOICES)
        prices, number = relaxed.duals.nodes, bidders.number.tolist()
        joined = choices and join(choices, number, bidders.capacity, prices, slack)
        tried = sum(len(each.loss) for each in choices or ()) - _FEW if joined else 4 * _MOST_CHOICES
        self._choices_by_square = max(0, tried) / slack**2
        if not joined:
            return relaxed.bound
        if not joined.counts:
            return relaxed.bound - slack
        best.take_if_better(joined.counts)
        return relaxed.bound - joined.loss
