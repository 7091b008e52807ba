"""By how much a larger batch brings the training further than the one that its learning rate was tuned for.

The formulas are those of AdaScale (Johnson, Agrawal, Gu, Guestrin: "AdaScale SGD: A User-Friendly Algorithm for
Distributed Training", ICML 2020, arXiv 2007.05105), for shares of any size. Pure arithmetic.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

_LEAST_VARIANCE = 1e-6
_MEMORY_STEPS = 1000


@dataclass(frozen=True, slots=True)
class Noise:
    """What the gradients of one step say of the gradient of all data.

    Attributes:
        squared: its squared norm, μ².
        variance: trace of the covariance of a gradient of a batch of the tuned size, σ².
    """

    squared: float
    variance: float


def noise_in(local: float, total: float, ranks: int, scale: float) -> Noise | None:
    """Estimates without bias, from the gradients of several ranks; None: one rank alone tells nothing.

    With shares wᵢ = nᵢ/N of a step's N samples, E‖gᵢ‖² = μ² + τ²/nᵢ, where τ² is the trace of one sample's
    covariance, so that local − total = τ² (ranks − 1)/N. For equal shares these are the estimates of AdaScale.

    Args:
        local: Σ wᵢ ‖gᵢ‖², where gᵢ is the mean gradient of rank i's samples.
        total: ‖Σ wᵢ gᵢ‖².
        ranks: those with samples.
        scale: N by the tuned number of samples, S.
    """
    if ranks < 2:
        return None
    return Noise((ranks * total - local) / (ranks - 1), (local - total) * scale / (ranks - 1))


def gain(noise: Noise, scale: float) -> float:
    """So many steps of the tuned size is one of ``scale`` times as many samples worth: (σ² + μ²)/(σ²/S + μ²).

    Between 1 (the gradient has no noise that a larger batch could average away) and S.
    """
    variance, squared = max(noise.variance, _LEAST_VARIANCE), max(noise.squared, 0.0)
    return (variance + squared) / (variance / scale + squared)


class NoiseAverage:
    """Moving averages of both estimates, over some 1000/S steps, without the bias of their start."""

    def __init__(self) -> None:
        self._squared = self._variance = self._weight = 0.0

    def add(self, noise: Noise, scale: float) -> None:
        """One step more; θ = max(1 − S/1000, 0) of the average before remains."""
        remains = max(1.0 - scale / _MEMORY_STEPS, 0.0)
        self._squared = remains * self._squared + (1.0 - remains) * noise.squared
        self._variance = remains * self._variance + (1.0 - remains) * noise.variance
        self._weight = remains * self._weight + (1.0 - remains)

    @property
    def noise(self) -> Noise | None:
        """The averages; None before the first step."""
        if not self._weight:
            return None
        return Noise(self._squared / self._weight, self._variance / self._weight)

    def state_dict(self) -> dict[str, Any]:
        """As carried along."""
        return {"squared": self._squared, "variance": self._variance, "weight": self._weight}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from there."""
        self._squared, self._variance, self._weight = state["squared"], state["variance"], state["weight"]
