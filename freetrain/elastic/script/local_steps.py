"""Rounds of steps that each rank makes by itself, for networks that are slow against the steps."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch

from freetrain.elastic.worlds.exchange import add_up_tensors
from freetrain.elastic.worlds.world import World
from freetrain.errors import InputError


@dataclass(frozen=True, slots=True)
class LocalSteps:
    """Each rank steps its optimizer by itself, and after a round of steps the ranks meet.

    A round begins at θ on all ranks and ends at θᵢ on rank i. The mean of the differences θ − θᵢ, weighted by the
    samples of the ranks, is then the gradient with which an outer optimizer, SGD with Nesterov's momentum, steps
    from θ: DiLoCo (Douillard and others: "DiLoCo: Distributed Low-Communication Training of Language Models",
    arXiv 2311.08105), whose outer rate and momentum are the defaults. With a rate of 1 and no momentum the ranks
    go on from their mean: local SGD (Stich: "Local SGD Converges Fast and Communicates Little", ICLR 2019,
    arXiv 1805.09767).

    Attributes:
        steps: of each rank in a round; the last round of an epoch may have fewer.
        outer_rate: learning rate of the outer optimizer.
        outer_momentum: its momentum.
    """

    steps: int
    outer_rate: float = 0.7
    outer_momentum: float = 0.9

    def __post_init__(self) -> None:
        if self.steps < 1 or self.outer_rate <= 0 or not 0 <= self.outer_momentum < 1:
            raise InputError(
                f"{self} makes no rounds: they need a step at least, a rate above 0 and a momentum below 1.",
                "LocalSteps(20) has the outer rate and momentum of DiLoCo.",
            )


class Rounds:
    """The meetings of the ranks at the ends of rounds."""

    def __init__(self, options: LocalSteps, parameters: Iterable[torch.Tensor]) -> None:
        self.steps = options.steps
        self._parameters = list(parameters)
        momentum = options.outer_momentum
        # Its momentum is a part of the training's state.
        self.outer: Any = torch.optim.SGD(
            self._parameters, options.outer_rate, momentum=momentum, nesterov=momentum > 0
        )
        self._start: list[torch.Tensor] = []
        self._is_under_way = False

    def begin(self) -> None:
        """Remember where the round begins, in memory that is kept for the rounds to come."""
        with torch.no_grad():
            self._start = self._start or [torch.empty_like(parameter) for parameter in self._parameters]
            for start, parameter in zip(self._start, self._parameters, strict=True):
                start.copy_(parameter)
        self._is_under_way = True

    def finish(self, share: float, world: World) -> None:
        """Go on from where all ranks have come to together, each weighted by its share of the round's samples.

        Raises LostRankError if one was lost; all are then where the round began.
        """
        with torch.no_grad():
            for start, parameter in zip(self._start, self._parameters, strict=True):
                parameter.grad = (start - parameter).mul_(share) if share else torch.zeros_like(parameter)
        # The outer optimizer steps from where the round began.
        self.take_back()
        try:
            add_up_tensors([parameter.grad for parameter in self._parameters if parameter.grad is not None], world)
            self.outer.step()
        finally:
            self.outer.zero_grad(set_to_none=True)

    def take_back(self) -> None:
        """Go back to where the round began, if one is under way."""
        if self._is_under_way:
            with torch.no_grad():
                for start, parameter in zip(self._start, self._parameters, strict=True):
                    parameter.copy_(start)
        self._is_under_way = False
