"""The best plan so far, and when it is good enough."""

from __future__ import annotations

from dataclasses import dataclass

from freetrain.core.decision import GOOD_ENOUGH
from freetrain.policies.solver.bidders import Bidders
from freetrain.policies.solver.master import Plan

_SOUGHT = GOOD_ENOUGH / 2


@dataclass(slots=True)
class Best:
    """The best plan so far.

    Attributes:
        bidders: the trainers.
        plan: what they get.
        value: what it is worth.
        gap: relative distance from the bound at which it is good enough.
    """

    bidders: Bidders
    plan: Plan
    value: float
    gap: float = _SOUGHT

    @property
    def enough(self) -> float:
        """A bound at which it is good enough."""
        return self.value + self.gap * abs(self.value)

    def take_if_better(self, plan: Plan) -> None:
        """Go on with another plan, where that is worth more."""
        value = value_of(self.bidders, plan)
        if value > self.value:
            self.plan, self.value = plan, value


def value_of(bidders: Bidders, plan: Plan) -> float:
    """What a plan is worth."""
    return sum(float(bidders.values_of(kind, each).sum()) for kind, each in enumerate(plan))
