"""Learning rates that follow batches which grow with the world, by what the gradients themselves say.

The formulas are those of AdaScale (Johnson, Agrawal, Gu, Guestrin: "AdaScale SGD: A User-Friendly Algorithm for
Distributed Training", ICML 2020, arXiv 2007.05105), for shares of any size.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

import torch

from freetrain.errors import InputError

_ADAMS = (torch.optim.Adam, torch.optim.AdamW)
_SGDS = (torch.optim.SGD,)
# Steps before which Adam's state of a parameter says little.
_WARM_STEPS = 5
# Above 0, or gradients that are all zero would be divided by zero.
_MIN_VARIANCE = 1e-6
_MEMORY_STEPS = 1000


class AdaScale:
    """Makes each step as much larger as its larger batch is worth, for ``elastic.Run(..., scaling=...)``.

    With S times the samples that the learning rate was tuned for, a step is worth r ∈ [1, S] steps of the tuned
    size (:func:`gain`). The optimizer's learning rates are multiplied by r during its step, and are what the
    script made of them otherwise.

    For Adam and AdamW they are multiplied by √r, and gradients are compared as Adam scales them, divided by the
    root of their second moment: so does AdaptDL (Qiao and others: "Pollux", OSDI 2021; its ``AdamScale``).

    Args:
        optimizer: torch's SGD, Adam or AdamW, whose learning rate is right for ``at_batch``.
        at_batch: samples per step that the learning rate was tuned for.

    Attributes:
        gain: r of the last step.
        progress: steps of the tuned size that the training's steps were worth: the sum of their r. Schedules are
            to follow this, for example by ``LambdaLR(optimizer, lambda _: factor(scaling.progress))``, and a
            training is as far as one with the tuned batch when both have the same.

    Raises:
        InputError: another optimizer.
    """

    def __init__(self, optimizer: torch.optim.Optimizer, at_batch: int) -> None:
        if not isinstance(optimizer, _SGDS + _ADAMS):
            raise InputError(
                f"AdaScale knows SGD, Adam and AdamW, and not {type(optimizer).__name__}.",
                "Use FixedBatch, which needs no other learning rate.",
            )
        self.gain = 1.0
        self.progress = 0.0
        self._optimizer = optimizer
        self._at_batch = at_batch
        self._is_adam = isinstance(optimizer, _ADAMS)
        self._average = NoiseAverage()
        self._factor: float | None = None
        self._rates: list[Any] = []
        groups = enumerate(optimizer.param_groups)
        self._group_of = {parameter: place for place, group in groups for parameter in group["params"]}
        optimizer.register_step_pre_hook(self._before_step)
        optimizer.register_step_post_hook(self._after_step)

    def follows(self, optimizer: torch.optim.Optimizer) -> bool:
        """Whether it scales the learning rates of this optimizer."""
        return optimizer is self._optimizer

    def squared_norm(self, gradients: Iterable[tuple[torch.Tensor, torch.Tensor]]) -> torch.Tensor:
        """The squared norm of gradients, paired with their parameters, as the optimizer scales them; a scalar."""
        squares = [self._squared(parameter, gradient.detach()) for parameter, gradient in gradients]
        return torch.stack(squares).sum() if squares else torch.zeros((), dtype=torch.float64)

    def observe(self, local: float, samples: int, ranks: int) -> None:
        """The gradients of a step are summed; the optimizer's next step is the step's.

        Args:
            local: Σ wᵢ ‖gᵢ‖² over the ranks.
            samples: samples of the step, over all ranks.
            ranks: number of ranks with samples.
        """
        scale = samples / self._at_batch
        summed = ((parameter, parameter.grad) for parameter in self._group_of if parameter.grad is not None)
        noise = noise_in(local, float(self.squared_norm(summed)), ranks, scale)
        if noise is not None and math.isfinite(noise.squared + noise.variance):
            self._average.add(noise, scale)
        known = self._average.noise
        # Until several ranks have shown the noise, a larger batch is taken for worth no more.
        self.gain = min(scale, 1.0) if known is None else gain(known, scale)
        self._factor = math.sqrt(self.gain) if self._is_adam else self.gain

    def state_dict(self) -> dict[str, Any]:
        """The state to carry along."""
        return {"progress": self.progress, "gain": self.gain, "average": asdict(self._average)}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from there."""
        self.progress, self.gain = state_dict["progress"], state_dict["gain"]
        self._average = NoiseAverage(**state_dict["average"])

    def _before_step(self, *_: Any) -> None:
        """Scale the learning rates; steps that follow others' updates, as a newcomer's do, have theirs already."""
        if self._factor is not None:
            self._rates = [group["lr"] for group in self._optimizer.param_groups]
            for group in self._optimizer.param_groups:
                group["lr"] = group["lr"] * self._factor

    def _after_step(self, *_: Any) -> None:
        if self._factor is not None:
            for group, rate in zip(self._optimizer.param_groups, self._rates, strict=True):
                group["lr"] = rate
            self.progress += self.gain
            self._factor = None

    def _squared(self, parameter: torch.Tensor, gradient: torch.Tensor) -> torch.Tensor:
        place, known = self._group_of.get(parameter), self._optimizer.state.get(parameter, {})
        if place is None:
            return torch.zeros((), dtype=torch.float64, device=gradient.device)
        if self._is_adam and known and float(known["step"]) >= _WARM_STEPS:
            group = self._optimizer.param_groups[place]
            correction = 1.0 - group["betas"][1] ** float(known["step"])
            gradient = gradient / (known["exp_avg_sq"].sqrt().div_(math.sqrt(correction)).add_(group["eps"]))
        # In double precision: what counts is the small difference of two such sums.
        norm: torch.Tensor = torch.linalg.vector_norm(gradient, dtype=torch.float64)
        return norm.square()


@dataclass(frozen=True, slots=True)
class Noise:
    """Estimates by one step's gradients of the gradient of all data."""

    squared: float  # its squared norm, μ²
    variance: float  # trace of the covariance of a gradient of a batch of the tuned size, σ²


def noise_in(local: float, total: float, ranks: int, scale: float) -> Noise | None:
    """Estimates without bias, from the gradients of several ranks; None: one rank alone tells nothing.

    With shares wᵢ = nᵢ/N of a step's N samples, E‖gᵢ‖² = μ² + τ²/nᵢ, where τ² is the trace of one sample's
    covariance, so that local − total = τ² (ranks − 1)/N. For equal shares these are the estimates of AdaScale.

    Args:
        local: Σ wᵢ ‖gᵢ‖², where gᵢ is the mean gradient of rank i's samples.
        total: ‖Σ wᵢ gᵢ‖².
        ranks: number of ranks with samples.
        scale: N by the tuned number of samples, S.
    """
    if ranks < 2:
        return None
    return Noise((ranks * total - local) / (ranks - 1), (local - total) * scale / (ranks - 1))


def gain(noise: Noise, scale: float) -> float:
    """Steps of the tuned size that a step of ``scale`` times the samples is worth: (σ² + μ²)/(σ²/S + μ²).

    Between 1 (the gradient has no noise that a larger batch could average away) and S.
    """
    variance, squared = max(noise.variance, _MIN_VARIANCE), max(noise.squared, 0.0)
    return (variance + squared) / (variance / scale + squared)


@dataclass(slots=True)
class NoiseAverage:
    """Moving averages of both estimates, over some 1000/S steps, without the bias of their start."""

    squared: float = 0.0
    variance: float = 0.0
    weight: float = 0.0

    def add(self, noise: Noise, scale: float) -> None:
        """One step more; θ = max(1 − S/1000, 0) of the average before remains."""
        remains = max(1.0 - scale / _MEMORY_STEPS, 0.0)
        self.squared = remains * self.squared + (1.0 - remains) * noise.squared
        self.variance = remains * self.variance + (1.0 - remains) * noise.variance
        self.weight = remains * self.weight + (1.0 - remains)

    @property
    def noise(self) -> Noise | None:
        """The averages; None before the first step."""
        return Noise(self.squared / self.weight, self.variance / self.weight) if self.weight else None
