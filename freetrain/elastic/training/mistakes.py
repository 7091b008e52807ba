"""Mistakes of a training script that would let its ranks go ways of their own, without any error."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from freetrain.elastic.training.agreement import COMPARED
from freetrain.elastic.training.shards import local
from freetrain.errors import InputError

_SAMPLED_TYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
_SCHEDULED = ("_wrapped_by_lr_sched", "_with_counter")
"""How torch's schedules mark the step function of their optimizer, in newer and in older versions."""

_DEPTH = 4


class Schedules:
    """The schedules of an optimizer's learning rates, of which the script may make some at any time.

    Args:
        optimizer: whose.
        also: what the script carries along.
    """

    def __init__(self, optimizer: torch.optim.Optimizer, also: Mapping[str, Any]) -> None:
        self._optimizer = optimizer
        self._also = also
        self._is_carried = False

    def check(self) -> None:
        """Whether one of them is carried along, if there are any.

        Raises:
            InputError: there are, but none is.
        """
        if self._is_carried or not any(hasattr(self._optimizer.step, mark) for mark in _SCHEDULED):
            return
        self._is_carried = _mentions(self._also, self._optimizer, _DEPTH)
        if not self._is_carried:
            raise InputError(
                "the optimizer has a learning rate schedule that is not in also={...}: newcomers and resumed "
                "trainings would begin it anew.",
                'Say also={"schedule": schedule}, or run.carry(schedule=schedule) before the first step.',
            )


def _mentions(item: Any, optimizer: torch.optim.Optimizer, depth: int) -> bool:
    """Whether the item is a schedule of this optimizer, or contains one."""
    if getattr(item, "optimizer", None) is optimizer:
        return True
    if depth == 0:
        return False
    if isinstance(item, Mapping):
        parts = list(item.values())
    elif isinstance(item, list | tuple):
        parts = list(item)
    else:
        parts = list(getattr(item, "__dict__", {}).values())
    return any(_mentions(part, optimizer, depth - 1) for part in parts)


def learning_rates(optimizer: torch.optim.Optimizer) -> list[float]:
    """Of each group of parameters."""
    return [float(group.get("lr", 0.0)) for group in optimizer.param_groups]


class Samples:
    """A few values of the model, others in every step, so that in time all tensors are looked at.

    Args:
        module: the model; parameters that its ranks do not share are left out.
    """

    def __init__(self, module: torch.nn.Module) -> None:
        unshared = getattr(module, "_ddp_params_and_buffers_to_ignore", ())
        self._parameters = [
            parameter
            for name, parameter in module.named_parameters()
            if name not in unshared
            and parameter.dtype in _SAMPLED_TYPES
            and parameter.layout is torch.strided
            and local(parameter).numel()
        ]

    def at(self, step: int) -> list[float]:
        """Those of this step, the same ones on all ranks with the same shard; no more than these are copied."""
        if not self._parameters:
            return []
        values = local(self._parameters[step % len(self._parameters)].detach())
        while values.dim() > 1:
            values = values[step % len(values)]
        return [float(value) for value in values.reshape(-1)[:COMPARED].tolist()]
