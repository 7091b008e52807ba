"""Hooks and signals for the training script: sizes, completed steps, and that a signal came."""

from __future__ import annotations

import signal
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.distributed as dist

from freetrain.elastic.worlds.device import device


@dataclass(frozen=True, slots=True)
class Resize:
    """The world has changed its size, before its first step.

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


class StopSignal:
    """Whether the script has to save and end: a signal came to one of its ranks.

    The ranks get it within different steps. All of them ask :attr:`is_due` at the same place of each step, and
    hear the same: they save together, and nobody waits for a rank that has gone.
    """

    def __init__(self, number: signal.Signals = signal.SIGTERM) -> None:
        self._came = False
        signal.signal(number, self._note)

    @property
    def is_due(self) -> bool:
        """Whether it came to any rank; a small sum over all of them."""
        if not dist.is_initialized():
            return self._came
        # NCCL sums only what is on a GPU.
        place = torch.device("cpu") if "gloo" in str(dist.get_backend()) else device()
        came = torch.tensor([float(self._came)], device=place)
        dist.all_reduce(came)
        return bool(came > 0)

    def _note(self, *_: object) -> None:
        self._came = True
