"""Concave utilities of what a training has done so far, which make a site's aim out of accumulated samples."""

from __future__ import annotations

import math
from dataclasses import dataclass

_STEEPNESS = 9.0
"""How much faster the utility of a logarithm grows at the start than at the target, less one."""


@dataclass(frozen=True, slots=True)
class Utility:
    """A member of the alpha-fair family, 0 at the start and ``weight`` at the target, flat beyond it.

    With x the share of the target that is done it is the integral of 1/(1+9x)^alpha, scaled to 1.

    Attributes:
        alpha: 0: linear, so that nothing counts but the sum of what is done; 1: the logarithm, which is
            proportionally fair; the larger, the more those count that have done least.
        energy_per_worker_s: utility that a second of a worker costs. With it more training may be worth less, and
            no guarantee holds.
    """

    alpha: float = 0.0
    energy_per_worker_s: float = 0.0

    def of(self, samples: float, target_samples: float, weight: float = 1.0) -> float:
        """Utility of so many samples; what is done beyond the target counts nothing."""
        reach = 1 + _STEEPNESS * min(max(samples / target_samples, 0.0), 1.0)
        if self.alpha == 1:
            return weight * math.log(reach) / math.log(1 + _STEEPNESS)
        power = 1 - self.alpha
        return float(weight * (reach**power - 1) / ((1 + _STEEPNESS) ** power - 1))


LINEAR = Utility(0.0)
LOG = Utility(1.0)
FAIR = Utility(2.0)
