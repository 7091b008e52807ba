"""What the runtime tells the training script."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch


@dataclass(frozen=True, slots=True)
class Resize:
    """The world has changed its size; told before its first step.

    Attributes:
        old_world: ranks before; 0 at the start.
        new_world: ranks now.
        old_batch: samples per step before; 0 at the start.
        new_batch: samples per step now.
    """

    old_world: int
    new_world: int
    old_batch: int
    new_batch: int


@dataclass(frozen=True, slots=True)
class StepResult:
    """A completed step.

    Attributes:
        step: its number, from 1.
        epoch: epoch its samples belong to, from 0.
        ids: samples of the whole world.
        my_ids: samples of this rank.
        loss: mean over the step's samples, over all ranks.
        world: ranks that took part.
        rank: of this process.
    """

    step: int
    epoch: int
    ids: list[int]
    my_ids: list[int]
    loss: float
    world: int
    rank: int


def scale_learning_rate(optimizer: torch.optim.Optimizer, at_batch: int) -> Callable[[Resize], None]:
    """A hook that keeps the learning rate in proportion to the batch.

    Args:
        optimizer: whose learning rate is right for ``at_batch`` when this is called.
        at_batch: samples per step that the learning rate was tuned for.
    """
    per_sample = [group["lr"] / at_batch for group in optimizer.param_groups]

    def follow(resize: Resize) -> None:
        for group, rate in zip(optimizer.param_groups, per_sample, strict=True):
            group["lr"] = rate * resize.new_batch

    return follow
